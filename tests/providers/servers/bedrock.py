"""Amazon Bedrock, by its endpoint for OpenAI's protocol.

Ids are `[a-zA-Z0-9_-]+`, 64 characters at most: RooCodeInc/Roo-Code#10902 (2026-01-22),
earendil-works/pi#781 (2026-01-16), run-llama/llama_index#22775 (2026-08-21). Names as ids:
NousResearch/hermes-agent#90016 (2026-08-19).
"""

from .wires import ChatServer


class Bedrock(ChatServer):
    endpoint = "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1"
    ids = "tooluse_{n:022d}"
    takes = "[a-zA-Z0-9_-]{1,64}"
    begins_with_user = True
    gives = {"reasoning": "{mark}"}
    wants_back = "never"
    error_form = (400, {"message": "{text}"})
