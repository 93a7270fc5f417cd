"""An unknown server that gives all its calls the same id.

huggingface/smolagents#2684, #2768, agno-agi/agno#2336.
"""

from .wires import ChatServer


class Duplicating(ChatServer):
    ids = "call"
    takes = "[a-zA-Z0-9]{9}"
    wants_back = "never"
    begins_with_user = True
