"""Tells the answer of a provider which has no tools for a model from all other failures of a request."""

from __future__ import annotations

import re

_TOOLS = r"(?:tools?|tool[ _-]?(?:use|calls?|calling|choice)|functions?|function[ _-]?calls?|function[ _-]?calling)"
_QUOTE = r"""[`'"]?"""
_REFUSALS = re.compile(
    "|".join(
        (
            # Ollama, DeepSeek, xAI, Bedrock, Groq: "… does not support tools", "doesn't support tool use"
            rf"(?:does not|doesn.t|do not|don.t|cannot|can.t) support (?:the |native )?{_QUOTE}{_TOOLS}\b",
            # OpenAI, Azure, Gemini, DeepInfra: "tools is not supported in this model", "Tool calling is not supported"
            rf"\b{_TOOLS}{_QUOTE} (?:is|are) (?:currently )?(?:not (?:supported|enabled)|unsupported|disabled)",
            # OpenRouter: "No endpoints found that support tool use"
            r"no endpoints found that support (?:tool use|.*tool_choice)",
            # vLLM: '"auto" tool choice requires --enable-auto-tool-choice …'
            # llama.cpp: "tools param requires --jinja flag"
            rf"\b{_TOOLS} (?:param |parameter )?requires? --",
            # llama.cpp, OpenAI: "Unsupported param: tools", "Unrecognized request argument supplied: tools"
            rf"(?:unsupported|unknown|unrecognized|unrecognised) (?:request )?(?:param(?:eter)?|argument|field)s?"
            rf"(?: supplied)?:? {_QUOTE}(?:tools|tool_choice|functions)\b",
            # Novita: "model features function calling not support"
            rf"\b{_TOOLS} not support(?:ed)?\b",
        )
    ),
    re.IGNORECASE,
)


def refuses_tools(text: str) -> bool:
    """Whether an error's text says that the model, or its server, takes no tools. Never raises.

    A wrong tool, or a wrong conversation, is refused in other words.
    """
    return _REFUSALS.search(text) is not None
