"""What the model is told of the tools and agents that it may call, as a part of its instructions."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ...agent import Agent
from ...child_agents import DELEGATE, TASK
from ...messages import Message, TextPart
from ..functions import FunctionDefinition, offered_functions

TOOLS_INSTRUCTIONS = """\
To use a tool, respond with ONLY this JSON (no other text):
{"tool": "tool_name", "arguments": {"arg1": "value1"}}

Wait for the tool result before providing your final answer."""
AGENT_INSTRUCTIONS = """\
To delegate a task to another agent, respond with ONLY this JSON (no other text):
{"agent": "agent_name", "task": "task description"}

Wait for the agent's response before providing your final answer."""
NO_ACTION_INSTRUCTIONS = """\
When you have all the information needed to provide a final answer, respond with ONLY:
{}

Then the system will ask you to provide your final response."""


def with_instructions(agent: Agent, messages: Sequence[Message]) -> list[Message]:
    """The messages, the first system message with what the model is told of the agent's tools; one is made of it alone.

    Raises ValueError for a union without alternatives.
    """
    functions = offered_functions(agent)
    known = {function.name for function in functions}
    names = [tool.name for tool in agent.tools or []]
    sections = _sections(functions, [name for name in names if name.startswith(DELEGATE) and name not in known])
    if not sections:
        return list(messages)
    first = next((index for index, message in enumerate(messages) if message.instructs), None)
    if first is None:
        return [Message.system("\n".join(sections).lstrip("\n")), *messages]
    told = messages[first]
    text = "\n".join([told.text, *sections])
    others = [part for part in told.parts if not isinstance(part, TextPart)]
    whole = Message(role=told.role, parts=[TextPart(value=text), *others], metadata=told.metadata)
    return [*messages[:first], whole, *messages[first + 1 :]]


def is_agent(function: FunctionDefinition) -> bool:
    """Whether the function is another agent, which takes a task."""
    return function.name.startswith(DELEGATE) and TASK in function.parameters.get("properties", {})


def _sections(functions: Sequence[FunctionDefinition], unavailable: Sequence[str]) -> list[str]:
    agents = [function for function in functions if is_agent(function)]
    tools = [function for function in functions if not is_agent(function)]
    sections = []
    if tools:
        sections += ["\n## Available Tools\n" + "\n".join(map(_tool, tools)), TOOLS_INSTRUCTIONS]
    if agents or unavailable:
        gone = ["\n**Unavailable agents:**"] if unavailable else []
        lines = [*map(_agent, agents), *gone, *(f"- **{_name(tool)}**: (unavailable)" for tool in unavailable)]
        sections += ["\n## Available Agents for Delegation\n" + "\n".join(lines), AGENT_INSTRUCTIONS]
    return [*sections, NO_ACTION_INSTRUCTIONS] if sections else []


def _tool(function: FunctionDefinition) -> str:
    schema = json.dumps(function.parameters, indent=2, ensure_ascii=False)
    return f"- **{function.name}**: {function.description or ''}\n  Parameters: {schema}"


def _agent(function: FunctionDefinition) -> str:
    return f"- **{_name(function.name)}**: {function.description or ''}"


def _name(tool: str) -> str:
    return tool.removeprefix(DELEGATE)
