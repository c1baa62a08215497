"""Traces with OpenTelemetry if its API is installed. Otherwise these functions do nothing.

One trace goes from a mention to the result, over hours and processes. Code that stores work for later stores
`traceparent()` with it, and the code that continues the work begins with `span(…, parent=that)`. Recording and
exporting is configured outside, as for any program: `opentelemetry-instrument -- adk-confirm serve`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Tracer

Value = str | int | bool | None


@cache
def _tracer() -> Tracer | None:
    """Imported when it is first needed, so that it costs nothing if it is not installed."""
    try:
        from opentelemetry import trace
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        return None
    return trace.get_tracer("adk_confirm")


class Span:
    """A running span. If `forgotten` is set, nothing came of the work, and the span is not recorded."""

    forgotten = False


@contextmanager
def span(name: str, *, parent: str | None = None, **about: Value) -> Iterator[Span]:
    """Everything inside belongs to the span. An exception marks it as failed; only its type is recorded."""
    tracer, outcome = _tracer(), Span()
    if tracer is None or (parent is None and not _is_recorded()):
        yield outcome
        return
    from opentelemetry.trace import Status, StatusCode

    with tracer.start_as_current_span(
        name,
        context=_context(parent),
        attributes=_attributes(about),
        record_exception=False,  # it may quote what the call was made with
        set_status_on_exception=False,
        end_on_exit=False,  # what does not end is not exported
    ) as current:
        try:
            yield outcome
        except BaseException as error:
            current.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            if not outcome.forgotten:
                current.end()


def record_span(name: str, began: int, *, parent: str | None, **about: Value) -> None:
    """A span that began at `began` (`time.time_ns`) and ends now, for work whose trace was not known before."""
    tracer = _tracer()
    if tracer is not None:
        tracer.start_span(name, context=_context(parent), attributes=_attributes(about), start_time=began).end()


def traceparent() -> str | None:
    """The current position in the trace, as a W3C `traceparent`. None if tracing is off."""
    return headers().get("traceparent")


def headers() -> Mapping[str, str]:
    """The trace as headers for a request to another server."""
    carrier: dict[str, str] = {}
    if _tracer() is not None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(carrier)
    return carrier


def trace_id() -> str | None:
    """The trace's id, for the log."""
    if _tracer() is None:
        return None
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    return trace.format_trace_id(context.trace_id) if context.is_valid else None


def _is_recorded() -> bool:
    """Whether anything was configured that records spans."""
    from opentelemetry import trace

    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def _context(parent: str | None) -> Context | None:
    """None is where we are."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": parent}) if parent else None


def _attributes(about: Mapping[str, Value]) -> dict[str, str | int | bool]:
    """Python's names have no dots, OpenTelemetry's do."""
    return {name.replace("__", "."): value for name, value in about.items() if value is not None}
