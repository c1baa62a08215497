"""Formats log lines. A line names its session and confirmation. No line has a secret or a call's arguments, at any
level.

Our own lines follow this rule. Other libraries quote the requests that they send, so only the first words of their
lines are logged. Exceptions quote the value that they failed on, so only their type and place are logged.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from traceback import extract_tb
from types import TracebackType
from typing import Literal

from adk_confirm.runtime.telemetry.tracing import trace_id

Form = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]

CARRIERS = frozenset(
    {
        "aiohttp", "aiosqlite", "asyncio", "authlib", "google", "google_adk", "google_genai", "httpcore",
        "httpx", "mcp", "opentelemetry", "psycopg", "slack_bolt", "slack_sdk", "sqlalchemy", "urllib3", "websockets",
    }
)  # fmt: skip
"""Libraries that handle what no log may hold."""

_OPENING = re.compile(r"[^(:{\[<=\"'`%\n]*")
_MOST_CAUSES = 10

_session: ContextVar[str | None] = ContextVar("session", default=None)
_confirmation: ContextVar[str | None] = ContextVar("confirmation", default=None)


@contextmanager
def log_context(*, session: str | None = None, confirmation: str | None = None) -> Iterator[None]:
    """Adds these ids to every log line from here on, in this task and in those that it starts."""
    tokens = [(of, of.set(name)) for of, name in ((_session, session), (_confirmation, confirmation)) if name]
    try:
        yield
    finally:
        for of, token in reversed(tokens):
            of.reset(token)


def configure(form: Form = "text", level: Level = "info") -> None:
    """Sets up logging. `level` is for our own lines; other libraries' lines are logged from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if form == "text" else JsonFormatter())
    root = logging.getLogger()
    for other in [one for one in root.handlers if type(one) is logging.StreamHandler]:
        root.removeHandler(other)  # remove earlier handlers, such as a tracer's, so that each line is written once
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("adk_confirm").setLevel(level.upper())
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda ended: _log_uncaught(ended.exc_type, ended.exc_value, ended.exc_traceback)


def _log_uncaught(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """Logs an uncaught exception like any other failure. Python would print the values that it quotes."""
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error or kind(), trace)
        return
    exc_info = None if error is None else (kind, error, trace)
    logging.getLogger("adk_confirm").critical("ended by what nobody caught", exc_info=exc_info)


class TextFormatter(logging.Formatter):
    """`INFO adk_confirm.bot.app: connected to … [session slack-T1-C1-1.2, confirmation 8f3c]`"""

    def format(self, record: logging.LogRecord) -> str:
        ids = ", ".join(f"{name} {value}" for name, value in _ids().items())
        line = f"{record.levelname} {record.name}: {_message(record)}{f' [{ids}]' if ids else ''}"
        return "\n".join(_on_one_line(part) for part in (line, *(f"  {part}" for part in _failure(record))))


class JsonFormatter(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        failure = _failure(record)
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
            **{name: getattr(record, name) for name in ("step", "line") if hasattr(record, name)},
            **_ids(),
            **({"error": failure} if failure else {}),
        }
        return _on_one_line(json.dumps(line, ensure_ascii=False))


def _on_one_line(text: str) -> str:
    """Escapes, as in JSON, what would end the line, what a terminal obeys and what nobody sees, such as the signs that
    reverse a text. Names in messages may have some."""
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


def _ids() -> dict[str, str]:
    found = {"session": _session.get(), "confirmation": _confirmation.get(), "trace": trace_id()}
    return {name: value for name, value in found.items() if value}


def _message(record: logging.LogRecord) -> str:
    carries = record.name.partition(".")[0] in CARRIERS or record.name.endswith(".sdk")
    if not carries:
        return record.getMessage()
    opening = _OPENING.match(str(record.msg))
    first = opening[0].strip() if opening else ""
    return f"{first or 'something to say'} … ({record.filename}:{record.lineno})"


def _failure(record: logging.LogRecord) -> list[str]:
    """The exception, its cause and its place, without any values."""
    lines: list[str] = []
    error = record.exc_info[1] if record.exc_info else None
    while error is not None and len(lines) < 20 * _MOST_CAUSES:
        lines.append(f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins."))
        lines += [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in extract_tb(error.__traceback__)]
        inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else None
        error = inner or error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return lines
