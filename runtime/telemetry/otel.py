"""The only module that imports OpenTelemetry's API. Recording and exporting is configured outside, as for any program:
`opentelemetry-instrument -- adk-confirm serve`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Status, StatusCode, format_trace_id
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from adk_confirm.runtime.telemetry.tracing import Span

Attributes = Mapping[str, str | int | bool | None]


class Otel:
    def __init__(self) -> None:
        self._tracer = trace.get_tracer("adk_confirm")
        self._carrier = TraceContextTextMapPropagator()

    def records(self) -> bool:
        """Whether anything was configured that records spans."""
        return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)

    @contextmanager
    def span(self, name: str, parent: str | None, about: Attributes, outcome: Span) -> Iterator[None]:
        with self._tracer.start_as_current_span(
            name,
            context=self._context(parent),
            attributes=_attributes(about),
            record_exception=False,  # it may quote what the call was made with
            set_status_on_exception=False,
            end_on_exit=False,  # what does not end is not exported
        ) as current:
            try:
                yield
            except BaseException as error:
                current.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise
            finally:
                if not outcome.forgotten:
                    current.end()

    def record_span(self, name: str, began: int, parent: str | None, about: Attributes) -> None:
        self._tracer.start_span(
            name, context=self._context(parent), attributes=_attributes(about), start_time=began
        ).end()

    def headers(self) -> dict[str, str]:
        carrier: dict[str, str] = {}
        self._carrier.inject(carrier)
        return carrier

    def trace_id(self) -> str | None:
        context = trace.get_current_span().get_span_context()
        return format_trace_id(context.trace_id) if context.is_valid else None

    def _context(self, parent: str | None) -> Context | None:
        """None is where we are."""
        return self._carrier.extract({"traceparent": parent}) if parent else None


def _attributes(about: Attributes) -> dict[str, AttributeValue]:
    """Python's names have no dots, OpenTelemetry's do."""
    return {name.replace("__", "."): value for name, value in about.items() if value is not None}
