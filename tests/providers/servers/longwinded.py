"""A proxy that writes thought signatures into ids of hundreds of characters.

BerriAI/litellm#18160, #11392, #41534, agentgateway/agentgateway#3342.
"""

from .wires import ChatServer


class LongWinded(ChatServer):
    ids = "call_{n:020d}__thought__" + "Q/+=" * 90
    takes = "[a-zA-Z0-9]{9}"
    gives = {"provider_specific_fields": "{mark}"}
    wants_back = "never"
    begins_with_user = True
    model_refuses = {"stream_options": "Extra inputs are not permitted: stream_options"}
