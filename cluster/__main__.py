"""`python -m cluster COMMAND`: a Temporal cluster on this machine."""

from __future__ import annotations

import argparse
import json
import sys

from . import client
from .home import ClusterError, build
from .profiles import PROFILES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in {"build": "compile it", "down": "end it", "reset": "empty it"}.items():
        commands.add_parser(name, help=text)
    for name, text in {"up": "start it", "supervise": "be its supervisor"}.items():
        commands.add_parser(name, help=text).add_argument(
            "profile", nargs="?", default="plain", choices=PROFILES
        )
    test = commands.add_parser("test", help="play tests of the suite on it")
    test.add_argument("arguments", nargs=argparse.REMAINDER, help="for pytest, in place of ours")
    commands.add_parser("report", help="what there is, as JSON")
    env = commands.add_parser("env", help="what clients need in their environment")
    env.add_argument("--token", default="write", help="write, read, other or admin")
    kill = commands.add_parser("kill", help="send a signal to a process, and start it again")
    kill.add_argument("name", help="such as history-2, frontend-1, postgresql")
    kill.add_argument("--signal", default="KILL", choices=("KILL", "TERM", "STOP", "CONT"))
    kill.add_argument("--hold", action="store_true", help="until `start`")
    commands.add_parser("start", help="let a process go on").add_argument("name")
    commands.add_parser("network", help="what the balancer does").add_argument("word", nargs="+")
    try:
        return _obey(parser.parse_args())
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1


def _obey(given: argparse.Namespace) -> int:
    match given.command:
        case "build":
            build()
        case "up":
            print(json.dumps(client.up(given.profile)))
        case "supervise":
            from .supervisor import main as supervise

            supervise(given.profile)
        case "down":
            client.down()
        case "reset":
            print(json.dumps(client.reset()))
        case "test":
            return client.test(given.arguments)
        case "report":
            print(json.dumps(client.report(), indent=1))
        case "env":
            for name, value in client.environment(client.state()["profile"], given.token).items():
                print(f"export {name}='{value}'")
        case "kill":
            print(client.ask(do="signal", name=given.name, signal=given.signal, hold=given.hold))
        case "start":
            print(client.ask(do="start", name=given.name))
        case "network":
            print(client.network(" ".join(given.word)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
