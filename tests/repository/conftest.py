"""What these tests share: commands as processes, besides what all tests have."""

from ..cli.conftest import cli

__all__ = ["cli"]
