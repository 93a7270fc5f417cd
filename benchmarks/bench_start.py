"""How long a person waits for the command line: `python -m benchmarks.bench_start`.

Each command is a process of its own, as typed; printed are the median and the slowest of the
rounds. The exit code is 1 when a median is over its limit.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 20
LIMITS_MS = {"perdure --help": 60.0, "perdure run --help": 200.0}

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "perdure --help": ["-m", "perdure.cli", "--help"],
    "perdure run --help": ["-m", "perdure.cli", "run", "--help"],
    "import perdure": ["-c", "import perdure"],
}


def milliseconds(arguments: list[str]) -> float:
    """The wall time of one process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1000


def main() -> int:
    print(f"{'command':<20} {'median ms':>10} {'slowest ms':>11}")
    medians = {}
    for name, arguments in COMMANDS.items():
        times = [milliseconds(arguments) for _ in range(ROUNDS)]
        medians[name] = statistics.median(times)
        print(f"{name:<20} {medians[name]:>10.0f} {max(times):>11.0f}")
    return int(any(medians[name] > limit for name, limit in LIMITS_MS.items()))


if __name__ == "__main__":
    sys.exit(main())
