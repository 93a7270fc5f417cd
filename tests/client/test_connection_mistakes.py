"""Mistakes in the settings of a connection, each explained in its own words: a real server, behind
a proxy with TLS.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from temporalio.service import TLSConfig

from perdure.client import connect
from perdure.errors import ConfigurationError
from perdure.json_types import JsonObject

from ..support.command_line import Cli

NAME = "temporal.test"


NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


class Authority:
    """A certificate authority of this test, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("ca", "other-ca"):
            self._openssl(
                *(
                    "req",
                    "-x509",
                    *NEW_KEY,
                    "-nodes",
                    "-days",
                    "2",
                    "-subj",
                    f"/CN={name}",
                ),
                *("-keyout", f"{name}.key", "-out", f"{name}.pem"),
            )

    def issue(self, name: str, alternative: str, *, by: str = "ca", days: int = 2) -> None:
        """Write NAME.pem and NAME.key."""
        self._openssl(
            *("req", *NEW_KEY, "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", f"{name}.key", "-out", f"{name}.csr"),
        )
        (self._folder / f"{name}.ext").write_text(f"subjectAltName={alternative}")
        self._openssl(
            *(
                "x509",
                "-req",
                "-in",
                f"{name}.csr",
                "-CA",
                f"{by}.pem",
                "-CAkey",
                f"{by}.key",
                "-CAcreateserial",
            ),
            *("-out", f"{name}.pem", "-days", str(days), "-extfile", f"{name}.ext"),
        )

    def path(self, file: str) -> str:
        return str(self._folder / file)

    def bytes(self, file: str) -> bytes:
        return (self._folder / file).read_bytes()

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self._folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue("server", f"DNS:{NAME}")
    made.issue("expired", f"DNS:{NAME}", days=-1)
    made.issue("elsewhere", "DNS:other.example")
    made.issue("client", "DNS:client")
    made.issue("stranger", "DNS:client", by="other-ca")
    return made


@asynccontextmanager
async def behind_tls(
    address: str, authority: Authority, certificate: str, *, mutual: bool
) -> AsyncIterator[str]:
    """Yield the address of a proxy that speaks TLS in front of the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(
        authority.path(f"{certificate}.pem"), authority.path(f"{certificate}.key")
    )
    context.set_alpn_protocols(["h2"])
    if mutual:
        context.load_verify_locations(authority.path("ca.pem"))
        context.verify_mode = ssl.CERT_REQUIRED
    host, _, port = address.rpartition(":")

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            return  # The other end has gone, which is what the mistakes lead to.
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner = await asyncio.open_connection(host, int(port))
        await asyncio.gather(copy(reader, inner[1]), copy(inner[0], writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def _settings(authority: Authority, *, ca: str = "ca", cert: str = "", key: str = "") -> TLSConfig:
    return TLSConfig(
        server_root_ca_cert=authority.bytes(f"{ca}.pem"),
        domain=NAME,
        client_cert=authority.bytes(f"{cert}.pem") if cert else None,
        client_private_key=authority.bytes(f"{key or cert}.key") if cert else None,
    )


MISTAKES: dict[str, tuple[str, bool, JsonObject | None, str, str]] = {
    "no TLS": ("server", False, None, "it may speak TLS only", "TEMPORAL_TLS=true"),
    "another authority": (
        "server",
        False,
        {"ca": "other-ca"},
        "not trusted",
        "TEMPORAL_TLS_SERVER_CA_CERT_PATH",
    ),
    "another name": (
        "elsewhere",
        False,
        {},
        f"expected {NAME}, it has other.example",
        "TEMPORAL_TLS_SERVER_NAME",
    ),
    "expired": ("expired", False, {}, "has expired", "renew"),
    "no client certificate": (
        "server",
        True,
        {},
        "closes each connection",
        "TEMPORAL_TLS_CLIENT_CERT_PATH",
    ),
    "a stranger": (
        "server",
        True,
        {"cert": "stranger"},
        "closes each connection",
        "TEMPORAL_TLS_CLIENT_CERT_PATH",
    ),
    "another key": (
        "server",
        True,
        {"cert": "client", "key": "stranger"},
        "does not belong to its certificate",
        "TEMPORAL_TLS_CLIENT_KEY_PATH",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_mistake_with_tls_is_explained(
    address: str, authority: Authority, mistake: str
) -> None:
    certificate, mutual, settings, text, remedy = MISTAKES[mistake]
    tls = {} if settings is None else {"tls": _settings(authority, **settings)}
    async with behind_tls(address, authority, certificate, mutual=mutual) as proxy:
        with pytest.raises(ConfigurationError) as raised:
            await connect(proxy, **tls)
        assert text in str(raised.value)
        assert remedy in str(raised.value)
        assert "tonic" not in str(raised.value), "the words of the SDK's transport"


async def test_right_settings_connect(address: str, authority: Authority) -> None:
    async with behind_tls(address, authority, "server", mutual=True) as proxy:
        client = await connect(proxy, tls=_settings(authority, cert="client"))
        assert await client.service_client.check_health()


async def test_tls_to_a_server_without_it(address: str, authority: Authority) -> None:
    with pytest.raises(ConfigurationError, match=r"does not speak TLS.* TEMPORAL_TLS=false"):
        await connect(address, tls=_settings(authority))


async def test_an_address_without_a_port() -> None:
    with pytest.raises(ConfigurationError, match="the address has no port, such as :7233"):
        await connect("127.0.0.1")


async def test_a_namespace_that_the_server_lacks(cli: Cli) -> None:
    elsewhere = Cli({**cli.environment, "TEMPORAL_NAMESPACE": "nope"})
    finished = await elsewhere("ls")
    await elsewhere.close()
    assert (finished.code, finished.stdout) == (1, "")
    assert (
        "the server has no namespace 'nope': expected the name of one in TEMPORAL_NAMESPACE"
        in finished.stderr
    )
