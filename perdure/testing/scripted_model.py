"""The scripted model as a program of its own: `python -m perdure.testing.scripted_model --script FILE.json`."""

from __future__ import annotations

import argparse
import importlib.util
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from .script import Script, ScriptedReply, ScriptedRequest
from .server import ScriptedModel, read_script

__all__ = ["ScriptedModel", "ScriptedReply", "ScriptedRequest", "main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGINT or SIGTERM; the first line on stdout is the URL.

    Raises SystemExit with code 2 when the script cannot be read.
    """
    parser = argparse.ArgumentParser(prog="python -m perdure.testing.scripted_model", description=__doc__)
    parser.add_argument("--script", required=True, help="FILE.json (a list of replies), or FILE.py:function")
    parser.add_argument("--port", type=int, default=0, help="default: any free one")
    options = parser.parse_args(arguments)
    try:
        script = open_script(options.script)
    except (OSError, ValueError, AttributeError) as error:
        parser.error(f"--script {options.script}: {error}")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with ScriptedModel(script, port=options.port) as model:
        print(model.url, flush=True)
        stop.wait()


def open_script(source: str) -> Script:
    """The script in a JSON file (`FILE.json`), or a function of a Python file (`FILE.py:function`).

    Raises OSError when the file cannot be read, ValueError when it is not such a file, and AttributeError when it
    does not define the function. What the Python file raises is raised as it is.
    """
    path, _, function = source.rpartition(":")
    if not path.endswith(".py"):
        return read_script(Path(source).read_text(encoding="utf-8"))
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise ValueError("this is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    script: Script = getattr(module, function)
    return script


if __name__ == "__main__":
    main()
