"""Certificates and tokens of a cluster: who the processes are, and what clients may do."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .home import HOME

NAME = "cluster.test"
NAMESPACES = ("default", "other")
TOKENS = {
    "write": ["default:write"],
    "read": ["default:read"],
    "other": ["other:write"],
    "admin": ["temporal-system:admin", "default:admin", "other:admin"],
}
"""Token → its permissions; `worker` alone would permit nothing."""
_DAYS = datetime.timedelta(days=30)


class Authority:
    """Makes what is missing in the folder `certificates`, and names the files."""

    def __init__(self) -> None:
        self.folder = HOME / "certificates"
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / "jwks.json").exists():
            self._make()

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def token(self, name: str) -> str:
        """A token that is valid for a day."""
        key = (self.folder / "tokens.key").read_bytes()
        expires = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
        claims = {"sub": name, "exp": expires, "permissions": TOKENS[name]}
        return jwt.encode(claims, key, algorithm="RS256", headers={"kid": "cluster"})

    def server_environment(self) -> dict[str, str]:
        """What each process gets: one certificate for all of them, a second authority for
        clients.
        """
        return {
            "TEMPORAL_TLS_REQUIRE_CLIENT_AUTH": "true",
            "TEMPORAL_TLS_SERVER_CERT": self.path("server.pem"),
            "TEMPORAL_TLS_SERVER_KEY": self.path("server.key"),
            "TEMPORAL_TLS_SERVER_CA_CERT": self.path("ca.pem"),
            "TEMPORAL_TLS_FRONTEND_CERT": self.path("server.pem"),
            "TEMPORAL_TLS_FRONTEND_KEY": self.path("server.key"),
            "TEMPORAL_TLS_CLIENT1_CA_CERT": self.path("ca.pem"),
            "TEMPORAL_TLS_CLIENT2_CA_CERT": self.path("clients-ca.pem"),
            "TEMPORAL_TLS_INTERNODE_SERVER_NAME": NAME,
            "TEMPORAL_TLS_FRONTEND_SERVER_NAME": NAME,
        }

    def token_environment(self) -> dict[str, str]:
        return {
            "TEMPORAL_AUTH_AUTHORIZER": "default",
            "TEMPORAL_AUTH_CLAIM_MAPPER": "default",
            "TEMPORAL_JWT_KEY_SOURCE1": f"file://{self.path('jwks.json')}",
            "TEMPORAL_JWT_PERMISSIONS_CLAIM": "permissions",
        }

    def client_environment(self) -> dict[str, str]:
        """What perdure and Temporal's command line read."""
        return {
            "TEMPORAL_TLS": "true",
            "TEMPORAL_TLS_SERVER_NAME": NAME,
            "TEMPORAL_TLS_SERVER_CA_CERT_PATH": self.path("ca.pem"),
            "TEMPORAL_TLS_CLIENT_CERT_PATH": self.path("client.pem"),
            "TEMPORAL_TLS_CLIENT_KEY_PATH": self.path("client.key"),
        }

    def _make(self) -> None:
        ca, clients = _Issuer(self.folder, "ca"), _Issuer(self.folder, "clients-ca")
        ca.issue("server", NAME)
        clients.issue("client", "client.test")
        _Issuer(self.folder, "strangers-ca").issue("stranger", "client.test")
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (self.folder / "tokens.key").write_bytes(_private(key))
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
        known = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "cluster"}
        keys = {"keys": [{**known, "n": public["n"], "e": public["e"]}]}
        (self.folder / "jwks.json").write_text(json.dumps(keys))


class _Issuer:
    """An authority; its certificate is in `NAME.pem`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = _certificate(self._name, self._name, self._key.public_key())
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        signed = made.sign(self._key, hashes.SHA256())
        (folder / f"{name}.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, host: str) -> None:
        """Write `NAME.pem` and `NAME.key`, for servers and clients alike."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        made = (
            _certificate(subject, self._name, key.public_key())
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        (self._folder / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
        (self._folder / f"{name}.key").write_bytes(_private(key))


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _DAYS)
    )


def _private(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
