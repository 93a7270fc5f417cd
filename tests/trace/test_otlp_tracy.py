"""Prompty's own file (§3): frames, usage, names, and what must not be in it."""

from __future__ import annotations

import json
from pathlib import Path

from perdure._version import __version__
from perdure.trace.otlp import to_tracy, tracy_name, write_tracy

from ..support.made_traces import Made, a_refund


def test_frames_are_nested_and_usage_adds_up() -> None:
    value = to_tracy(a_refund())
    assert (value["runtime"], value["version"]) == ("python", __version__)
    root = value["trace"]
    assert root["name"] == "invoke_agent dispute_resolver"
    assert root["__time"]["duration"] == 184_000_000
    assert root["__time"]["start"] == "2026-09-21T14:13:20.123456"
    assert root["__usage"] == {"input_tokens": 6000, "output_tokens": 425, "total_tokens": 6425}
    [helper] = [
        frame for frame in root["__frames"] if frame["name"] == "execute_tool policy_reader"
    ]
    [child] = helper["__frames"]
    assert (
        child["__usage"]
        == helper["__usage"]
        == {"input_tokens": 2400, "output_tokens": 170, "total_tokens": 2570}
    )
    assert [frame["signature"] for frame in child["__frames"]] == [
        "perdure.chat",
        "perdure.execute_tool",
        "perdure.chat",
    ]


def test_inputs_and_results_are_values() -> None:
    first, tool, *_, last = to_tracy(a_refund())["trace"]["__frames"]
    assert first["inputs"]["messages"][0]["role"] == "user"
    assert first["result"]["usage"] == {
        "input_tokens": 1200,
        "output_tokens": 85,
        "total_tokens": 1285,
    }
    assert tool["result"] == {"result": "order found "}
    assert last["result"]["exception"] == {"type": "overloaded", "message": "overloaded happened"}


def test_strings_under_secret_names_are_redacted_and_counts_of_tokens_are_not() -> None:
    _, tool, *_ = to_tracy(a_refund())["trace"]["__frames"]
    assert tool["inputs"]["arguments"] == {"id": 88213, "api_key": "[REDACTED]"}


def test_the_name_is_the_root_and_its_end(tmp_path: Path) -> None:
    made = Made()
    made.add("invoke_agent ../etc/päss wd", 0, 60)
    assert tracy_name(made.spans) == "invoke_agent_.._etc_p_ss_wd.20260921.141420.tracy"
    written = write_tracy(made.spans, tmp_path)
    assert written.parent == tmp_path
    assert json.loads(written.read_text())["trace"]["name"] == "invoke_agent ../etc/päss wd"
