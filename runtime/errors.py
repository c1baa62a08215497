"""Our exceptions. `str()` of each is a sentence for people; the outer layers map types to status codes."""

from __future__ import annotations

import asyncio
from socket import gaierror
from typing import Any

_MOST_CAUSES = 10


class ConfirmError(Exception):
    """An error that a person or a client can do something about. The message says what."""


def message_of(error: BaseException) -> str:
    """The message of an exception, if it has one that can be stored. Never raises."""
    try:
        return str(error).encode("utf-8", "replace").decode()
    except BaseException:  # noqa: BLE001  (somebody else's exception, whose own words may fail in any way)
        return ""


class Invalid(ConfirmError):
    """The input is not valid. Nothing was stored."""


class NotFound(ConfirmError):
    """There is no such session, app, request or confirmation."""


class Conflict(ConfirmError):
    """The input contradicts what already happened. Nothing was changed."""


class Forbidden(ConfirmError):
    """The caller may not do this in this way."""


class Busy(ConfirmError):
    """Somebody else is working on it and did not finish in time. It is safe to try again."""


class StoreError(ConfirmError):
    """The store refused. The whole transaction did not happen."""


def was_cancelled() -> bool:
    """Whether the running task itself was cancelled (or is gone), and not only something that it waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def read_error(ended: asyncio.Future[Any]) -> None:
    """Reads the error of a future that has ended, since whoever waited for it may be gone: asyncio would report it as
    forgotten."""
    if not ended.cancelled():
        ended.exception()


def why_unreached(error: BaseException) -> str:
    """Why nothing was heard from a server, in words."""
    cause = getattr(error, "os_error", None)  # in aiohttp's own errors, which quote its settings
    if cause is not None:
        return "there is no such host" if isinstance(cause, gaierror) else "nothing answers there"
    return "no answer came in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__


def reason(error: Exception) -> str:
    """A reason for a log line or a probe: our own sentence without its full stop. Of other exceptions it gives only
    the type, since the message may quote something that must not be logged."""
    if isinstance(error, ConfirmError):
        return str(error).rstrip(".")
    first: BaseException = error
    for _ in range(_MOST_CAUSES):
        first = first.__cause__ or first.__context__ or first
    return " from ".join(dict.fromkeys(type(each).__name__ for each in (error, first)))
