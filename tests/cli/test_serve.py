"""`perdure serve`: what it starts, says and refuses."""

from __future__ import annotations

import signal
from pathlib import Path

import openai
import pytest

from ..support.command_line import AGENT, Cli

HOUSE = """
from perdure import GuardrailResult, Guardrails

def judge(messages):
    return GuardrailResult(allowed=messages[-1].text != "No", reason="not today")

RULES = Guardrails(input=judge)
"""
AGENTS = str(AGENT / "ages.prompty")


async def test_one_command_has_it_all(embedded: Cli, tmp_path: Path) -> None:
    """The embedded server, a worker with the code that is named, and what to paste into a
    client.
    """
    file = tmp_path / "clerk.prompty"
    file.write_text("---\nname: clerk\nmodel: gpt-x\n---\nsystem:\nBe brief.\n")
    embedded.environment["DEBUG_MOCK_RESPONSES"] = '["Hello."]'
    code = tmp_path / "house.py"
    code.write_text(HOUSE)
    gateway = await embedded.start(
        "serve", str(file), "--port", "0", "--mock", "--guardrails", f"{code}:RULES"
    )
    pasted = await gateway.says("OpenAI:")
    url = pasted.partition("base URL ")[2].partition(",")[0]
    async with openai.AsyncOpenAI(base_url=url, api_key="anything", max_retries=0) as client:
        assert [each.id async for each in await client.models.list()] == ["clerk"]
        said = await client.chat.completions.create(
            model="clerk", messages=[{"role": "user", "content": "Hi"}]
        )
        assert said.choices[0].message.content == "Hello."
        with pytest.raises(openai.UnprocessableEntityError) as denied:
            await client.chat.completions.create(
                model="clerk", messages=[{"role": "user", "content": "No"}]
            )
        assert denied.value.code == "guardrail_denied"
    assert (await gateway.finish(signal.SIGTERM)).code == 0


async def test_what_would_be_open_to_all_is_refused(embedded: Cli) -> None:
    refused = await embedded("serve", AGENTS, "--host", "0.0.0.0")
    assert refused.code == 2
    assert "Expected --tokens, --identify or --oidc-issuer with it" in refused.stderr
    refused = await embedded("serve", AGENTS, "--oidc-issuer", "https://issuer.example")
    assert refused.code == 2
    assert "--oidc-issuer needs --oidc-audience" in refused.stderr
    refused = await embedded("serve", AGENTS, AGENTS)
    assert refused.code == 1
    assert "would both be offered as 'ages'" in refused.stderr
    refused = await embedded("serve", "none.prompty")
    assert refused.code == 2
    assert "there is no file 'none.prompty'" in refused.stderr


async def test_an_agent_with_a_secret_in_its_file_is_refused_before_anybody_asks(
    embedded: Cli, tmp_path: Path
) -> None:
    file = tmp_path / "open.prompty"
    file.write_text(
        "---\nname: open\nmodel: {id: m, connection: {kind: key, apiKey: "
        "written-here-itself}}\n---\nHi\n"
    )
    refused = await embedded("serve", str(file))
    assert refused.code == 1
    assert (
        f"'{file}' can't be offered: model.connection.apiKey is a secret itself" in refused.stderr
    )
    assert "written-here-itself" not in refused.stderr
