"""What encryption adds to each payload: microseconds and bytes, for sizes that runs have."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

from perdure.payloads.converter import data_converter
from perdure.payloads.encryption.keys import new_key

SIZES = (300, 4_000, 64_000, 1_000_000)


async def best(call: Callable[[], Awaitable[Any]], rounds: int) -> float:
    """Microseconds for one call, on the quietest of five occasions."""
    times = []
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(rounds):
            await call()
        times.append((time.perf_counter() - started) / rounds)
    return min(times) * 1e6


async def measure(rounds: int) -> None:
    plain = data_converter(compress_from_bytes=1 << 40)
    sealed = data_converter(compress_from_bytes=1 << 40, encryption=new_key("bench"))
    print("bytes  encode +µs  decode +µs  +bytes")
    for size in SIZES:
        value = os.urandom(size)
        count = max(20, rounds * 300 // size)
        [clear], [closed] = await plain.encode([value]), await sealed.encode([value])
        encode = await best(lambda v=value: sealed.encode([v]), count) - await best(
            lambda v=value: plain.encode([v]), count
        )
        decode = await best(lambda p=closed: sealed.decode([p]), count) - await best(
            lambda p=clear: plain.decode([p]), count
        )
        print(
            f"{size:>9}  {encode:>9.0f}  {decode:>9.0f}  {closed.ByteSize() - clear.ByteSize():>5}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2000)
    asyncio.run(measure(parser.parse_args().rounds))
