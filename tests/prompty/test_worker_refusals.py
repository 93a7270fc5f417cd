"""What a worker refuses of an agent, place by place."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any

import pytest

from perdure.agents import Agent
from perdure.arguments import dotted_path
from perdure.errors import ConfigurationError
from perdure.json_types import JsonObject
from perdure.prompty.worker_limits import OPEN, VARIABLES, WorkerLimits
from perdure.prompty.worker_refusals import refusals, remedy, require_allowed

OWN = {
    "OPENAI_API_KEY": "sk-owner",
    "ANTHROPIC_API_KEY": "sk-owner",
    "CRM_KEY": "k",
    "CRM_URL": "https://crm.example",
}
EVIL = "https://evil.example/v1"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        *VARIABLES.values(),
        "OPENAI_BASE_URL",
        "AZURE_OPENAI_ENDPOINT",
        "ANTHROPIC_BASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    for name, value in OWN.items():
        monkeypatch.setenv(name, value)


def model(
    endpoint: str | None = None, key: str | None = None, provider: str = "openai"
) -> JsonObject:
    connection = {"kind": "key", "endpoint": endpoint, "apiKey": key}
    return {
        "model": {"provider": provider, "connection": {k: v for k, v in connection.items() if v}}
    }


def tool(kind: str = "mcp", **fields: Any) -> JsonObject:
    return {"tools": [{"name": "t", "kind": kind, **fields}]}


def at(endpoint: str, key: str = "", **options: Any) -> JsonObject:
    return tool(connection={"kind": "key", "endpoint": endpoint, "apiKey": key}, options=options)


def calling(url: str, key: str) -> JsonObject:
    """A server that the provider calls, declared among the model's own parameters."""
    server = {"type": "mcp", "server_url": url, "headers": {"Authorization": key}}
    return {
        "model": {"provider": "openai", "options": {"additionalProperties": {"tools": [server]}}}
    }


def refused(document: JsonObject, **limits: Any) -> list[str]:
    """The places, each with the limit that keeps it from them."""
    found = refusals(document, WorkerLimits(**limits))
    assert not refusals(document, OPEN)
    return [f"{dotted_path(place)} {refused.limit}" for place, refused in found]


FINE: dict[str, tuple[JsonObject, JsonObject]] = {
    "no connection": (model(), {}),
    "the provider's key at the provider": (model(key="${env:OPENAI_API_KEY}"), {}),
    "… by its address": (model("https://api.openai.com/v1", "${env:OPENAI_API_KEY}"), {}),
    "a model elsewhere, without a key": (model("http://localhost:11434/v1"), {}),
    "the provider's key at a listed host": (
        model("https://gateway.example/v1", "${env:OPENAI_API_KEY}"),
        {"hosts": ["gateway.example"]},
    ),
    "the provider, beside listed hosts": (
        model("https://api.openai.com/v1"),
        {"hosts": ["crm.example"]},
    ),
    "a tool elsewhere, without a key": (at(EVIL), {}),
    "a listed variable at a listed host": (
        at("https://crm.example/mcp", "${env:CRM_KEY}"),
        {"env": ["CRM_KEY"], "hosts": ["*.crm.example", "crm.example"]},
    ),
    "a listed variable at a listed address": (
        at("${env:CRM_URL}", "${env:CRM_KEY}"),
        {"env": ["CRM_KEY", "CRM_URL"]},
    ),
    "a credential at a listed host": (
        at("https://crm.example", "${credential:7}"),
        {"hosts": ["crm.example:443"]},
    ),
    "a listed variable at a listed host that the provider calls": (
        calling("https://crm.example/mcp", "${env:CRM_KEY}"),
        {"env": ["CRM_KEY"], "hosts": ["crm.example"]},
    ),
    "an address among the model's parameters, without a key": (
        calling(EVIL, "none"),
        {"hosts": ["crm.example"]},
    ),
    "a listed command": (
        tool(options={"command": "npx", "args": ["http://x"]}),
        {"commands": ["npx"]},
    ),
    "a listed kind": (tool("openapi"), {"kinds": ["openapi"]}),
    "a function": (tool("function"), {"kinds": ["openapi"]}),
    "a text that looks like a reference": (
        {"instructions": "${env:CRM_KEY}", "description": "${env:CRM_KEY}"},
        {},
    ),
    "an address that is none": (
        at("https://crm.example", headers={"Referer": EVIL}),
        {"hosts": ["crm.example"]},
    ),
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_allowed(name: str) -> None:
    document, limits = FINE[name]
    assert refused(document, **limits) == []


KEY, ENDPOINT = "tools[0].connection.apiKey env", "tools[0].connection.endpoint hosts"
REFUSED: dict[str, tuple[JsonObject, Iterable[str], JsonObject]] = {
    "a provider's key elsewhere": (
        model(EVIL, "${env:OPENAI_API_KEY}"),
        ["model.connection.apiKey hosts"],
        {},
    ),
    "… of another provider": (
        model("https://api.openai.com/v1", "${env:ANTHROPIC_API_KEY}"),
        ["model.connection.apiKey hosts"],
        {},
    ),
    "… in a tool": (at("https://api.openai.com", "${env:OPENAI_API_KEY}"), [KEY, ENDPOINT], {}),
    "… of a provider that is not known": (
        model(key="${env:OPENAI_API_KEY}", provider="acme"),
        ["model.connection.apiKey env"],
        {},
    ),
    "… of a provider that has another": (
        model(key="${env:OPENAI_API_KEY}", provider="anthropic"),
        ["model.connection.apiKey env"],
        {},
    ),
    "… in an address": (model("${env:OPENAI_API_KEY}"), ["model.connection.endpoint env"], {}),
    "any variable": (at("https://crm.example", "${env:CRM_KEY}"), [KEY, ENDPOINT], {}),
    "… that has a default": (at("https://crm.example", "${env:NO_SUCH:x}"), [KEY, ENDPOINT], {}),
    "… in a header": (
        at("https://crm.example", headers={"X": "${env:HOME}"}),
        ["tools[0].options.headers.X env", ENDPOINT],
        {},
    ),
    "… in metadata": (
        {"metadata": {"x": {"apiKey": "${env:CRM_KEY}"}}},
        ["metadata.x.apiKey env"],
        {},
    ),
    "… for a command": (
        tool(options={"command": "npx", "env": {"A": "${env:HOME}"}}),
        ["tools[0].options.env.A env"],
        {"commands": ["npx"]},
    ),
    "a listed variable elsewhere": (
        at(EVIL, "${env:CRM_KEY}"),
        ["tools[0].connection.endpoint hosts"],
        {"env": ["CRM_KEY"]},
    ),
    "… by the default of an address": (
        at("${env:NO_SUCH:https://evil.example}", "${env:CRM_KEY}"),
        ["tools[0].connection.endpoint hosts"],
        {"env": ["CRM_KEY", "NO_SUCH"]},
    ),
    "… by the provider": (
        calling(EVIL, "${env:CRM_KEY}"),
        ["model.options.additionalProperties.tools[0].server_url hosts"],
        {"env": ["CRM_KEY"]},
    ),
    "… that is not listed": (
        calling(EVIL, "${env:CRM_KEY}"),
        ["model.options.additionalProperties.tools[0].server_url hosts"],
        {"env": ["CRM_KEY"], "hosts": ["crm.example"]},
    ),
    "a credential elsewhere": (
        at(EVIL, "${credential:7}"),
        ["tools[0].connection.endpoint hosts"],
        {},
    ),
    "… of the model": (model(EVIL, "${credential:7}"), ["model.connection.endpoint hosts"], {}),
    "… to a further host": (
        at("https://crm.example", "${credential:7}", allowedHosts=["evil.example"]),
        ["tools[0].options.allowedHosts[0] hosts"],
        {"hosts": ["crm.example"]},
    ),
    "another host than those listed": (
        at(EVIL),
        ["tools[0].connection.endpoint hosts"],
        {"hosts": ["crm.example", "evil.example:8443", "*.evil.example"]},
    ),
    "a specification elsewhere": (
        tool("openapi", specification=EVIL),
        ["tools[0].specification hosts"],
        {"hosts": ["crm.example"]},
    ),
    "where a cloud gives out credentials": (
        at("http://169.254.169.254/latest"),
        ["tools[0].connection.endpoint hosts"],
        {},
    ),
    "… in other letters": (model("http://0xa9fea9fe/v1"), ["model.connection.endpoint hosts"], {}),
    "… in IPv6": (
        at("http://[::ffff:169.254.169.254]/"),
        ["tools[0].connection.endpoint hosts"],
        {},
    ),
    "… by name": (
        at("http://metadata.google.internal/"),
        ["tools[0].connection.endpoint hosts"],
        {},
    ),
    "a command": (
        tool(options={"command": "sh"}),
        ["tools[0].options.command commands"],
        {"commands": ["npx"]},
    ),
    "… from a variable": (
        tool(options={"command": "${env:SHELL:sh}"}),
        ["tools[0].options.command commands", "tools[0].options.command env"],
        {},
    ),
    "a kind": (tool("workflow"), ["tools[0].kind kinds"], {"kinds": ["mcp"]}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    document, places, limits = REFUSED[name]
    assert refused(document, **limits) == list(places)


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254.",
        "169.254.1.2",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "169.254.43518",
        "metadata.google.internal.",
        "Metadata.Google.Internal..",
        "metadata.goog",
        "metadata",
        "instance-data.",
        "100.100.100.200.",
        "0x646464c8",
        "168.63.129.16",
        "[fd00:ec2::254]",
        "[fd00:0ec2:0:0::0254]",
        "[fd20:ce::254]",
        "[fe80::1]",
        "[::ffff:169.254.169.254]",
        "[0:0:0:0:0:ffff:a9fe:a9fe]",
        "[::169.254.169.254]",
        "[::ffff:100.100.100.200]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]",
    ],
)
def test_no_spelling_leads_to_where_a_cloud_gives_out_credentials(host: str) -> None:
    for url in (f"http://{host}/latest", f"https://{host}:8443"):
        assert refused(at(url)) == ["tools[0].connection.endpoint hosts"]
        assert not WorkerLimits(hosts=["*"]).refusal_of_url(url, with_secret=True)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost.", "[::1]", "[::ffff:10.0.0.1]", "x.metadata.io"]
)
def test_other_addresses_in_any_spelling_are_called(host: str) -> None:
    assert refused(at(f"http://{host}:9/")) == []


@pytest.mark.parametrize(
    "url", ["https://crm.example@evil.example", "https://evil.example\\.crm.example", "HTTP:evil"]
)
def test_an_address_that_can_be_read_in_two_ways(url: str) -> None:
    [found] = refusals(at(url), WorkerLimits(hosts=["crm.example"]))
    assert "this worker only calls plain URLs of servers" in str(found.refused)


def test_the_owners_address_of_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    named = model("${env:OPENAI_BASE_URL}", "${env:OPENAI_API_KEY}")
    assert refused(named) == ["model.connection.endpoint env", "model.connection.apiKey env"]
    monkeypatch.setenv("OPENAI_BASE_URL", "https://gateway.example/v1")
    assert refused(named) == []
    assert refused(model("https://gateway.example/other", "${env:OPENAI_API_KEY}")) == []


def test_limits_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert WorkerLimits.from_environment() == WorkerLimits()
    monkeypatch.setenv("PERDURE_ALLOW_COMMANDS", "npx, uvx,")
    monkeypatch.setenv("PERDURE_ALLOW_HOSTS", "*")
    found = WorkerLimits.from_environment()
    assert found == WorkerLimits(commands=("npx", "uvx"), hosts=("*",))
    assert found.as_environment()["PERDURE_ALLOW_COMMANDS"] == "npx,uvx"
    assert found.with_names({"commands": ["docker"], "env": None}).commands == ("docker",)
    with pytest.raises(ConfigurationError, match="expected a list of names"):
        WorkerLimits(env="HOME")


def test_other_models_are_held_to_the_same() -> None:
    def also(*others: JsonObject) -> JsonObject:
        return {"model": {**model()["model"], "fallback": [other["model"] for other in others]}}

    key = "${env:OPENAI_API_KEY}"
    assert (
        refused(also(model("https://api.openai.com/v1", key), model("http://localhost:1/v1"))) == []
    )
    assert refused(also(model(), model(EVIL, key)))[0].startswith(
        "model.fallback[1].connection.apiKey hosts"
    )
    assert refused(also(model(EVIL)), hosts=["crm.example"]) == [
        "model.fallback[0].connection.endpoint hosts"
    ]
    assert refused(also(model(EVIL, "${env:CRM_KEY}")), env=["CRM_KEY"]) != []


def test_everything_is_told_at_once_with_one_command_that_allows_it() -> None:
    document: JsonObject = model("http://127.0.0.1:18415/v1", "${env:STOCK_LLM_KEY}")
    document["tools"] = [
        {"name": "a", "kind": "mcp", "options": {"command": "/opt/my tools/x"}},
        {
            "name": "b",
            "kind": "mcp",
            "connection": {"kind": "key", "endpoint": "https://mcp.example"},
        },
    ]
    limits = WorkerLimits(env=["OTHER"])
    assert refused(document, env=["OTHER"]) == [
        "model.connection.apiKey env",
        "tools[0].options.command commands",
        "model.connection.endpoint hosts",
    ]
    text = remedy(document, limits)
    assert (
        "with --allow-hosts, agents call no other host than those and the model's own provider"
        in text
    )
    options = "--allow-commands '/opt/my tools/x' --allow-env OTHER,STOCK_LLM_KEY"
    assert text.endswith(f"\nperdure worker {options} --allow-hosts 127.0.0.1:18415,mcp.example")
    given = {
        "commands": ["/opt/my tools/x"],
        "env": ["OTHER,STOCK_LLM_KEY"],
        "hosts": ["127.0.0.1:18415,mcp.example"],
    }
    assert not refusals(document, WorkerLimits().with_names(given))
    with pytest.raises(ConfigurationError) as caught:
        require_allowed(Agent.model_validate({"name": "a", **document}), limits)
    assert str(caught.value).endswith(text)
    assert str(caught.value).count("perdure worker ") == 1


@pytest.mark.parametrize("name", REFUSED)
def test_the_command_allows_what_is_refused(name: str) -> None:
    document, _, given = REFUSED[name]
    words = shlex.split(
        remedy(document, limits := WorkerLimits(**given)).rpartition("\nperdure worker ")[2]
    )
    options = {
        name.removeprefix("--allow-"): [text]
        for name, text in zip(words[::2], words[1::2], strict=True)
    }
    assert not refusals(document, limits.with_names(options))
