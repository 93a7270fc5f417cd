"""The shop's handbook as an MCP server over stdio; the worker starts it. Needs `pip install
mcp`.
"""

from __future__ import annotations

from mcp.server import MCPServer

RULES = {
    "refund": (
        "An article that does not work is refunded in full within two years. Refunds above "
        "100 need a manager."
    ),
    "delivery": "Orders leave the house on the next working day.",
}
handbook = MCPServer("handbook")


@handbook.tool()
def look_up_rule(topic: str) -> str:
    """The shop's rule on a topic: refund or delivery."""
    return RULES.get(topic, f"There is no rule on {topic!r}: only on {', '.join(RULES)}.")


@handbook.tool()
def change_rule(topic: str, rule: str) -> str:
    """Changes a rule; the help desk's model is not offered this one."""
    RULES[topic] = rule
    return "changed"


if __name__ == "__main__":
    handbook.run("stdio")
