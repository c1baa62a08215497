"""OpenTelemetry, where its API is installed; where it is not, none of this does anything.

One trace goes from a mention to the result, over hours and processes: whoever stores something that somebody will take
up later stores `carried()` with it, and who takes it up begins with `span(…, parent=that)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.telemetry.otel import Otel

Value = str | int | bool | None


@cache
def _otel() -> Otel | None:
    """Looked for when it is first needed: who does not have it pays nothing."""
    try:
        from runtime.telemetry.otel import Otel
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        return None
    return Otel()


class Span:
    """What happens now. `forgotten`: it turned out to be nothing, and is not recorded."""

    forgotten = False


@contextmanager
def span(name: str, *, parent: str | None = None, **about: Value) -> Iterator[Span]:
    """What happens inside is part of it. An exception marks it as failed; only its type is recorded."""
    otel, current = _otel(), Span()
    if otel is None:
        yield current
        return
    with otel.span(name, parent, about, current):
        yield current


def past(name: str, began: int, *, parent: str | None, **about: Value) -> None:
    """What began then (`time.time_ns`) and ends now, where it was not known before what it is part of."""
    otel = _otel()
    if otel is not None:
        otel.past(name, began, parent, about)


def carried() -> str | None:
    """Where we are, as a W3C `traceparent`; None while nobody traces."""
    otel = _otel()
    return None if otel is None else otel.headers().get("traceparent")


def headers() -> Mapping[str, str]:
    """The same for a request to another server."""
    otel = _otel()
    return {} if otel is None else otel.headers()


def trace_id() -> str | None:
    """For the log."""
    otel = _otel()
    return None if otel is None else otel.trace_id()
