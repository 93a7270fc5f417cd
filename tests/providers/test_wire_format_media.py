"""Which images, recordings and files each API takes, in which form: sent by its real SDK, or
refused with a reason.
"""

from __future__ import annotations

import base64
import time

import pytest

from perdure import UnsupportedMediaError
from perdure.agents import Agent
from perdure.client import start_run
from perdure.json_types import JsonObject
from perdure.media import source_problem
from perdure.messages import AudioPart, Message
from perdure.providers import to_request

from ..support.agents import WIRES
from ..support.stage import Stage
from ..support.wire_agents import ANTHROPIC, CHAT, RESPONSES, agent, answering, asking

PDF = base64.b64encode(b"%PDF-1.4\n").decode()
PARTS: dict[str, JsonObject] = {
    "image in base64": {"kind": "image", "source": base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()},
    "image by URL": {"kind": "image", "source": "https://example.com/a.png"},
    "audio in base64": {"kind": "audio", "source": base64.b64encode(b"RIFF....WAVE").decode()},
    "audio by URL": {"kind": "audio", "source": "https://example.com/a.wav"},
    "PDF in base64": {"kind": "file", "source": PDF, "filename": "a.pdf"},
    "text in base64": {"kind": "file", "source": "aGk=", "mediaType": "text/plain"},
    "file by URL": {"kind": "file", "source": "https://example.com/a.pdf"},
    "no source at all": {"kind": "image", "source": "photo.png"},
}
REFUSED = {
    (
        CHAT,
        "audio by URL",
    ): "OpenAI Chat Completions does not accept a URL of audio: give the content itself",
    (
        CHAT,
        "file by URL",
    ): "does not accept a URL of files: give the content itself, .* or choose `apiType: responses`",
    (CHAT, "no source at all"): "'photo.png' is neither a URL nor base64",
    (RESPONSES, "audio by URL"): "OpenAI Responses does not accept a URL of audio",
    (RESPONSES, "no source at all"): "'photo.png' is neither a URL nor base64",
    (
        ANTHROPIC,
        "audio in base64",
    ): "Anthropic does not accept audio: send its transcript, or choose a model that listens",
    (ANTHROPIC, "audio by URL"): "Anthropic does not accept audio",
    (ANTHROPIC, "no source at all"): "'photo.png' is neither a URL nor base64",
}
CASES = [
    (api, wire, name)
    for api, wire in zip((CHAT, RESPONSES, ANTHROPIC), WIRES, strict=True)
    for name in PARTS
]


@pytest.mark.parametrize(("api", "wire", "name"), CASES)
def test_each_kind_is_sent_or_refused(api: tuple[str, str], wire: str, name: str) -> None:
    said = {"role": "user", "content": [{"kind": "text", "value": "See"}, PARTS[name]]}
    if (refusal := REFUSED.get((api, name))) is None:
        assert to_request(agent(api), [said])
        return
    with pytest.raises(UnsupportedMediaError, match=refusal):
        to_request(agent(api), [said])


@pytest.mark.parametrize(("api", "wire", "name"), CASES)
def test_of_a_tools_result_the_model_is_told_what_it_cannot_be_sent(
    api: tuple[str, str], wire: str, name: str
) -> None:
    sent = to_request(
        agent(api),
        [{"role": "user", "content": "Q"}, asking(("c", "f", "{}")), answering("c", [PARTS[name]])],
    )
    told = f"[{PARTS[name]['kind']}, not shown: " in repr(sent)
    assert told == ((api, name) in REFUSED)


def test_anthropic_names_the_types_that_it_takes() -> None:
    zipped = {"kind": "file", "source": "AAAA", "mediaType": "application/zip"}
    with pytest.raises(
        UnsupportedMediaError,
        match=r"does not accept files of type application/zip: expected application/pdf, text/\*",
    ):
        to_request(agent(ANTHROPIC), [{"role": "user", "content": [zipped]}])


def test_anthropic_is_sent_a_text_file_as_text() -> None:
    sent = to_request(agent(ANTHROPIC), [{"role": "user", "content": [PARTS["text in base64"]]}])
    source = {"type": "text", "media_type": "text/plain", "data": "hi"}
    assert sent["messages"][0]["content"] == [{"type": "document", "source": source}]


@pytest.mark.parametrize("has_template", [True, False])
async def test_a_run_that_the_model_cannot_be_sent_is_not_started(
    stage: Stage, has_template: bool
) -> None:
    """Before, a worker failed it as `(internal)`."""
    audio = Message(role="user", parts=[AudioPart(source="UklGRg==", mediaType="audio/wav")])
    calling = Agent.model_validate(
        {
            "name": "listener",
            "model": {"id": "m", "provider": "anthropic"},
            "inputs": [{"name": "said", "kind": "audio"}],
            "instructions": "user:\n{{said}}",
        }
    )
    inputs, messages = ({"said": "UklGRg=="}, None) if has_template else (None, [audio])
    with pytest.raises(UnsupportedMediaError, match="Anthropic does not accept audio"):
        await start_run(
            stage.client, calling, inputs, messages=messages, task_queue=stage.task_queue
        )


def test_content_with_whitespace_is_checked_in_linear_time() -> None:
    began = time.process_time()
    assert "neither a URL nor base64" in str(source_problem("A" + " " * 30_000 + "!"))
    assert source_problem("aGVs\nbG8=\n") is None
    assert time.process_time() - began < 3
