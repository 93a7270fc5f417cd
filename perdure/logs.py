"""The loggers of perdure, whose lines contain no secrets and say which run, tool and call they are about."""

from __future__ import annotations

import logging
import traceback

from .redaction import redacted_excerpt


class WithoutSecrets(logging.Filter):
    """Redacts a record: its text and its traceback, which is only left as text (`exc_text`). Lets every record pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "is_redacted", False):
            return True
        try:
            text = record.getMessage()
        except Exception:
            text = str(record.msg)
        record.msg, record.args = redacted_excerpt(text), None
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text = "".join(traceback.format_exception(record.exc_info[1])).rstrip()
        record.exc_info = None
        if record.exc_text:
            record.exc_text = redacted_excerpt(record.exc_text)
        record.is_redacted = True
        return True


_without_secrets = WithoutSecrets()


def get_logger(name: str) -> logging.Logger:
    """The logger of that name, whose records are redacted whoever handles them."""
    logger = logging.getLogger(name)
    logger.addFilter(_without_secrets)
    return logger
