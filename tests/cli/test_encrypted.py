"""Commands on an encrypted run, with its key and without."""

from __future__ import annotations

import json
import uuid

from perdure.payloads.encryption.keys import new_key

from .conftest import Cli

AGES = ("ages.prompty", "--tools", "tools.py", "--scripted", "tools.py:script", "--input", "person=Ann")


async def test_who_lacks_the_key_is_told_which(cli: Cli) -> None:
    id = f"sealed-{uuid.uuid4()}"
    keyed = Cli({**cli.environment, "PERDURE_ENCRYPTION_KEY": new_key("k1")})
    try:
        ran = await keyed("run", *AGES, "--id", id, "--quiet")
        assert (ran.code, ran.stdout) == (0, "Ann is 30.\n"), ran.stderr
    finally:
        await keyed.close()
    listed = await cli("ls", "--limit", "1000")
    [row] = [line for line in listed.stdout.splitlines() if line.startswith(id)]
    assert "completed, encrypted (key k1)" in row
    assert "can't be read: encrypted (key k1): PERDURE_ENCRYPTION_KEY lacks it here" in listed.stderr
    status = await cli("status", id, "--json")
    assert status.code == 0, status.stderr
    shown = json.loads(status.stdout)
    assert (shown["status"], shown["encryptedWith"]) == ("completed", "k1")
    assert shown["searchAttributes"]["PerdureAgent"] == "ages"
    assert "add k1:… to PERDURE_ENCRYPTION_KEY" in status.stderr
    assert (await cli("result", id)).code == 1
