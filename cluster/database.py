"""A PostgreSQL instance of the cluster's own: its folder, its schema, and a way back to empty."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess

from .home import DATA, HOME, NODE, ClusterError, programs_of_postgresql, user_of_postgresql

PORT = 15432
NAMES = {"temporal": "temporal", "temporal_visibility": "visibility"}
"""Database → the folder of its schema."""


def password() -> str:
    file = HOME / "password"
    if not file.exists():
        file.write_text(secrets.token_hex(12))
    return file.read_text()


def make() -> None:
    """Make the folder of the instance, once. Raises `ClusterError`."""
    if (DATA / "PG_VERSION").exists():
        return
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    secret = HOME / "superuser"
    secret.write_text(password())
    if user := user_of_postgresql():
        for path in (DATA, secret):
            shutil.chown(path, user)
    DATA.chmod(0o700)
    arguments = ["--auth=scram-sha-256", "--username=postgres", f"--pwfile={secret}"]
    arguments += ["--encoding=UTF8", "--locale=C.UTF-8"]
    _run([str(programs_of_postgresql() / "initdb"), *arguments, "-D", str(DATA)], user=user)
    secret.unlink()


def server_command() -> list[str]:
    """Start the instance with the defaults of durability: nothing that was committed is lost."""
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": str(PORT),
        "unix_socket_directories": str(DATA),
        "max_connections": "400",
        "shared_buffers": "256MB",
    }
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return [str(programs_of_postgresql() / "postgres"), "-D", str(DATA), *options]


def answers() -> bool:
    command = [str(programs_of_postgresql() / "pg_isready"), "-q", "-h", "127.0.0.1"]
    return subprocess.run([*command, "-p", str(PORT)]).returncode == 0


def query(statement: str, database: str = "postgres") -> str:
    """Execute a statement as the superuser; its output without decoration. Raises
    `ClusterError`.
    """
    place = ["-h", "127.0.0.1", "-p", str(PORT), "-U", "postgres", "-d", database]
    psql = str(programs_of_postgresql() / "psql")
    return _run([psql, *place, "-Atqc", statement], PGPASSWORD=password())


def fill() -> None:
    """Make the role and both databases with their schemas, and a copy of each, unless they are
    there.
    """
    if not query("SELECT 1 FROM pg_roles WHERE rolname = 'temporal'"):
        query(f"CREATE ROLE temporal LOGIN CREATEDB PASSWORD '{password()}'")
    for name, schema in NAMES.items():
        if query(f"SELECT 1 FROM pg_database WHERE datname = '{name}_clean'"):
            continue
        # The schema's version is recorded under the name of its database.
        query(f"DROP DATABASE IF EXISTS {name}")
        query(f"CREATE DATABASE {name} OWNER temporal")
        tool = [str(NODE), "schema", "--plugin", "postgres12", "--ep", "127.0.0.1"]
        tool += ["-p", str(PORT), "-u", "temporal", "--db", name]
        _run([*tool, "setup-schema", "-v", "0.0"], SQL_PASSWORD=password())
        folder = f"postgresql/v12/{schema}"
        _run([*tool, "update-schema", "--schema-name", folder], SQL_PASSWORD=password())
        query(f"CREATE DATABASE {name}_clean OWNER temporal TEMPLATE {name}")


def empty() -> None:
    """Put empty databases in the place of those that there are. No role may be running."""
    for name in NAMES:
        query(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        query(f"CREATE DATABASE {name} OWNER temporal TEMPLATE {name}_clean")


def was_served() -> bool:
    """Return whether a server has written its cluster's row: until then, only one may start."""
    return query("SELECT count(*) FROM cluster_metadata_info", "temporal") != "0"


def size() -> int:
    """Bytes of both databases."""
    return sum(int(query(f"SELECT pg_database_size('{name}')")) for name in NAMES)


def _run(command: list[str], user: str | None = None, **environment: str) -> str:
    ended = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        user=user,
        group=user,
        cwd="/",
    )
    if ended.returncode:
        raise ClusterError(f"{' '.join(command)} failed: {ended.stderr or ended.stdout}")
    return ended.stdout.strip()
