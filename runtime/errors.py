"""The root of our exceptions. `str()` of each is a sentence for people; the outer layers map types to status codes."""

from __future__ import annotations

_MOST_CAUSES = 10


class ConfirmError(Exception):
    """Something a person or a client can do something about; the message says what."""


def words_of(error: BaseException) -> str:
    """What it says, as far as that can be said and stored: an error must not fail whoever tells of it."""
    try:
        return str(error).encode("utf-8", "replace").decode()
    except Exception:  # noqa: BLE001  (somebody else's exception, whose own words may fail in any way)
        return ""


class Invalid(ConfirmError):
    """The input does not mean anything: nothing was stored."""


class NotFound(ConfirmError):
    """There is no such session, app, request or confirmation."""


class Conflict(ConfirmError):
    """The input contradicts what already happened: nothing was changed."""


class Forbidden(ConfirmError):
    """Whoever asks may not do this by this way in."""


class Busy(ConfirmError):
    """Somebody else is working on it and did not finish in time; trying again is safe."""


class StoreError(ConfirmError):
    """The store did not take it: the transaction as a whole did not happen."""


def reason(error: Exception) -> str:
    """For a log line or a probe: our own sentence, without its full stop. Of any other exception only the kinds, since
    its words may quote what no log may hold."""
    if isinstance(error, ConfirmError):
        return str(error).rstrip(".")
    first: BaseException = error
    for _ in range(_MOST_CAUSES):
        first = first.__cause__ or first.__context__ or first
    return " from ".join(dict.fromkeys(type(each).__name__ for each in (error, first)))
