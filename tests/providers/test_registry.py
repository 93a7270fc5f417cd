"""§11: which provider an agent's model gets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perdure.agents import Agent
from perdure.errors import InvokerError
from perdure.providers import process_response, provider_for, to_request
from perdure.providers.anthropic import AnthropicMessages
from perdure.providers.openai_chat import OpenAIChat
from perdure.providers.openai_responses import OpenAIResponses

from ..support.wire_agents import agent

ADDED = """
from perdure.providers import Provider


class Mine(Provider):
    def to_request(self, agent, messages, *, extra_tools=(), may_call_tools=True):
        return {"key": self.key}

    def process(self, agent, response):
        return "processed"

    reply = process

    async def call(self, agent, request, options):
        return {}


def factory(key, api_type):
    return Mine(f"{key}/{api_type}")
"""


@pytest.mark.parametrize(
    ("key", "api_type", "found"),
    [
        ("openai", "chat", OpenAIChat),
        ("openai", "responses", OpenAIResponses),
        ("azure", "chat", OpenAIChat),
        ("azure", "responses", OpenAIResponses),
        ("foundry", "chat", OpenAIChat),
        ("anthropic", "chat", AnthropicMessages),
    ],
)
def test_table(key: str, api_type: str, found: type) -> None:
    provider = provider_for(agent((key, api_type)))
    assert type(provider) is found
    assert provider.key == key


def test_openai_chat_is_the_default() -> None:
    assert type(provider_for(Agent())) is OpenAIChat
    assert to_request(Agent(), [{"role": "user", "content": "Hi"}])["messages"] == [
        {"role": "user", "content": "Hi"}
    ]


def test_unknown_providers_and_apis() -> None:
    with pytest.raises(InvokerError, match="^No executor registered for key: nobody$"):
        to_request(agent(("nobody", "chat")), [])
    with pytest.raises(InvokerError, match="^No processor registered for key: nobody$"):
        process_response(agent(("nobody", "chat")), {})
    for key, api_type in (("openai", "embedding"), ("openai", "image"), ("anthropic", "responses")):
        with pytest.raises(ValueError, match=f"^Unsupported API type: {api_type}$"):
            to_request(agent((key, api_type)), [])


def test_an_installed_package_adds_a_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "added_provider.py").write_text(ADDED)
    about = tmp_path / "added_provider-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: added-provider\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[perdure.providers]\nadded = added_provider:factory\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert to_request(agent(("added", "chat")), []) == {"key": "added/chat"}
    assert process_response(agent(("added", "chat")), {}) == "processed"


def test_translating_imports_no_sdk() -> None:
    """The SDKs take most of a second to import: only a call does."""
    script = (
        "import sys; from perdure.agents import Agent; from perdure.providers import to_request, "
        "process_response\n"
        "for key in ('openai', 'anthropic'): to_request(Agent(), [{'role': 'user', 'content': "
        "'Hi'}], provider=key)\n"
        "print([name for name in ('openai', 'anthropic', 'httpx2', 'yaml', 'jinja2') if name in "
        "sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[]"
