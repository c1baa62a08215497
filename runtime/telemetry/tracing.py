"""Traces with OpenTelemetry if its API is installed. Otherwise these functions do nothing.

One trace goes from a mention to the result, over hours and processes. Code that stores work for later stores
`traceparent()` with it, and the code that continues the work begins with `span(…, parent=that)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adk_confirm.runtime.telemetry.otel import Otel

Value = str | int | bool | None


@cache
def _load_otel() -> Otel | None:
    """Imported when it is first needed, so that it costs nothing if it is not installed."""
    try:
        from adk_confirm.runtime.telemetry.otel import Otel
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        return None
    return Otel()


class Span:
    """A running span. If `forgotten` is set, nothing came of the work, and the span is not recorded."""

    forgotten = False


@contextmanager
def span(name: str, *, parent: str | None = None, **about: Value) -> Iterator[Span]:
    """Everything inside belongs to the span. An exception marks it as failed; only its type is recorded."""
    otel, current = _load_otel(), Span()
    if otel is None or (parent is None and not otel.records()):
        yield current
        return
    with otel.span(name, parent, about, current):
        yield current


def record_span(name: str, began: int, *, parent: str | None, **about: Value) -> None:
    """A span that began at `began` (`time.time_ns`) and ends now, for work whose trace was not known before."""
    otel = _load_otel()
    if otel is not None:
        otel.record_span(name, began, parent, about)


def traceparent() -> str | None:
    """The current position in the trace, as a W3C `traceparent`. None if tracing is off."""
    otel = _load_otel()
    return None if otel is None else otel.headers().get("traceparent")


def headers() -> Mapping[str, str]:
    """The same as headers for a request to another server."""
    otel = _load_otel()
    return {} if otel is None else otel.headers()


def trace_id() -> str | None:
    """The trace's id, for the log."""
    otel = _load_otel()
    return None if otel is None else otel.trace_id()
