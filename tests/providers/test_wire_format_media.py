"""Which images, recordings and files each API takes, in which form: sent by its real SDK, or
refused with a reason.
"""

from __future__ import annotations

import base64
import os
import time
from pathlib import Path
from typing import Any

import pytest

from perdure import UnsupportedMediaError
from perdure.agents import Agent
from perdure.client import start_run
from perdure.media import source_problem
from perdure.messages import AudioPart, FilePart, ImagePart, Message
from perdure.providers import to_request
from perdure.testing import ScriptedModel, asks, call, says

from ..support.agents import WIRES, scripted_agent
from ..support.stage import Stage
from ..support.wire_agents import ANTHROPIC, CHAT, RESPONSES, agent, answering, asking

PDF = base64.b64encode(b"%PDF-1.4\n").decode()
PARTS: dict[str, dict[str, Any]] = {
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


async def test_a_run_with_a_pdf_reaches_chat_completions(stage: Stage, tmp_path: Path) -> None:
    """Before, `file.url` was sent, which the API does not have."""
    (tmp_path / "report.pdf").write_bytes(b"%PDF-1.4\n")
    with ScriptedModel([says("A report.")]) as model:
        calling = scripted_agent(
            model,
            inputs=[{"name": "report", "kind": "file"}],
            instructions="user:\nSum it up: {{report}}",
        )
        async with stage.worker({}):
            run = await start_run(
                stage.client,
                calling,
                {"report": tmp_path / "report.pdf"},
                task_queue=stage.task_queue,
            )
            assert (await run.result()).output == "A report."
        [request] = model.requests
    [_, part] = request.body["messages"][0]["content"]
    assert part == {
        "type": "file",
        "file": {"filename": "report.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
    }


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


async def test_a_tool_that_returns_audio_does_not_end_a_run(stage: Stage) -> None:
    def record() -> AudioPart:
        return AudioPart(source="UklGRg==", mediaType="audio/wav")

    with ScriptedModel([asks(call("record", "c1")), says("No sound here.")]) as model:
        async with stage.worker({"record": record}):
            declared = {"name": "record", "kind": "function"}
            run = await stage.start(scripted_agent(model, [declared], wire="anthropic"))
            assert (await run.result()).output == "No sound here."
        assert "[audio, not shown: Anthropic does not accept audio" in str(
            model.requests[1].body["messages"]
        )


def test_parts_are_made_of_files_and_bytes(tmp_path: Path) -> None:
    jpeg = tmp_path / "photo.png"  # named wrongly
    jpeg.write_bytes(b"\xff\xd8\xff\xe0")
    assert ImagePart.from_file(jpeg, detail="low").model_dump(by_alias=True) == {
        "kind": "image",
        "source": "/9j/4A==",
        "mediaType": "image/jpeg",
        "detail": "low",
    }
    with jpeg.open("rb") as opened:
        assert FilePart.from_file(opened).filename == "photo.png"
    assert FilePart.from_bytes(b"a;b", name="t.csv").media_type == "text/csv"
    assert AudioPart.from_bytes(b"\0\0", media_type="audio/L16").media_type == "audio/L16"
    with pytest.raises(ValueError, match=r"'photo.png' is image/jpeg: expected an audio"):
        AudioPart.from_file(jpeg)
    with pytest.raises(ValueError, match="the image is empty"):
        ImagePart.from_bytes(b"")
    with pytest.raises(ValueError, match="unknown type"):
        ImagePart.from_bytes(b"hello")
    with pytest.raises(FileNotFoundError):
        ImagePart.from_file(tmp_path / "none.png")
    os.mkfifo(tmp_path / "pipe.png")
    for no_file in (tmp_path / "pipe.png", tmp_path):
        with pytest.raises(ValueError, match="is not a regular file: expected a file"):
            FilePart.from_file(no_file)


def test_content_with_whitespace_is_checked_in_linear_time() -> None:
    began = time.process_time()
    assert "neither a URL nor base64" in str(source_problem("A" + " " * 30_000 + "!"))
    assert source_problem("aGVs\nbG8=\n") is None
    assert time.process_time() - began < 3
