"""One trace from the mention to the result, over the wait and a restart, recorded by OpenTelemetry's own SDK."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from adk_confirm.bot.hosts.remote import RemoteServer
from adk_confirm.runtime.telemetry import tracing
from adk_confirm.runtime.wire import Content, SessionId
from tests.support.office import LAB, POLICY, Office, Opens
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def recording() -> Iterator[InMemorySpanExporter]:
    """A process has one provider, for good: after this module it records no more."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    yield exporter
    provider.shutdown()


@pytest.fixture
def recorded(recording: InMemorySpanExporter) -> InMemorySpanExporter:
    recording.clear()
    return recording


async def spans(recorded: InMemorySpanExporter, last: str, times: int = 1) -> dict[str, list[ReadableSpan]]:
    """By name, once so many of the last one are there."""
    await until(lambda: sum(span.name == last for span in recorded.get_finished_spans()) >= times)
    found: dict[str, list[ReadableSpan]] = {}
    for span in recorded.get_finished_spans():
        found.setdefault(span.name, []).append(span)
    return found


def traces(*groups: list[ReadableSpan]) -> set[int]:
    return {span.context.trace_id for group in groups for span in group if span.context}


async def restarted(at: Office) -> None:
    await at.stops()
    await at.starts(POLICY)


async def test_the_click_and_the_run_join_the_mention_over_a_restart(
    open_office: Opens, recorded: InMemorySpanExporter
) -> None:
    async with open_office() as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        await restarted(at)
        await at.later(minutes=20)
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("I reimbursed 1500", at.deploys, thread=card)
        found = await spans(recorded, "adk_confirm.run", times=2)

    wanted = ("mention", "run", "ask", "click", "count", "draw")
    groups = [found[f"adk_confirm.{name}"] for name in wanted]
    assert len(traces(*groups, found["execute_tool reimburse"], found["chat"])) == 1
    (mention,), (ask,), (click,) = (found[f"adk_confirm.{name}"] for name in ("mention", "ask", "click"))
    first, second = found["adk_confirm.run"]
    (tool,) = found["execute_tool reimburse"]
    assert mention.parent is None
    assert parents(first, second, ask, click, tool) == names(mention, ask, first, ask, second)
    assert click.attributes is not None
    assert click.attributes["adk_confirm.vote"] == "approve"
    assert str(click.attributes["adk_confirm.session"]).startswith("slack-T0ACME-")
    assert click.start_time is not None
    assert click.end_time is not None
    assert click.end_time > click.start_time


def parents(*spans: ReadableSpan) -> list[int | None]:
    return [span.parent.span_id if span.parent else None for span in spans]


def names(*spans: ReadableSpan) -> list[int | None]:
    return [span.context.span_id if span.context else None for span in spans]


async def test_of_whom_is_known_who_they_are_a_click_is_counted_as_it_is_stored(
    open_office: Opens, recorded: InMemorySpanExporter
) -> None:
    """One transaction in all, and nobody is asked in between: on a quiet day that is a click's way."""
    async with open_office(f"{POLICY}quorum = 2\n") as at:
        for times in (1, 2):
            card = await at.ask("reimburse 1500 for the team dinner")
            await at.bob.clicks(card, "Approve")
            await at.ann.finds("· approved by bob ·", at.deploys, thread=card)
            found = await spans(recorded, "adk_confirm.click", times)
            asked = [(made.method, *made.args.values()) for made in at.slack.calls if made.method.startswith("use")]
            bob_may, who_asked = (
                [("usergroups.users.list", "S0ONCALL"), ("users.info", "U0BOB")],
                ("users.info", "U0ANN"),
            )
            assert sorted(each for each in asked if each != who_asked) == bob_may
            assert asked.count(who_asked) <= 1, "for her name on the card, not on the click's way"

    clicks = [click.attributes or {} for click in found["adk_confirm.click"]]
    assert [click["adk_confirm.counted"] for click in clicks] == [False, True]
    assert len(found["adk_confirm.count"]) == 1


async def test_a_span_holds_no_arguments(open_office: Opens, recorded: InMemorySpanExporter) -> None:
    async with open_office(target=LAB) as at:
        for line in ('pay {"to": "Z0RA-THE-PAYEE", "amount": 20, "token": "t0p-s3cret"}', 'breaks {"why": "Z0RA-WHY"}'):
            card = await at.ask(line)
            await at.bob.clicks(card, "Deny…")
            await (await at.bob.gets_modal("Deny")).submits({"Reason": "Z0RA-REASON"})
            await at.ann.finds("Denied", at.deploys, thread=card)
            card = await at.ask(line)
            await at.bob.clicks(card, "Approve")
            await at.rests()
        found = await spans(recorded, "execute_tool breaks")
    assert found["execute_tool breaks"][0].status.description == "RuntimeError"
    written = "\n".join(span.to_json() for group in found.values() for span in group)
    assert "Z0RA" not in written
    assert "t0p-s3cret" not in written


def test_without_the_api_nothing_is_imported_and_nothing_happens() -> None:
    """In a Python where importing it fails. That the bot does not import it: `test_cli.py`."""
    script = """
import sys
sys.modules["opentelemetry"] = None
from adk_confirm.runtime.telemetry import tracing
from adk_confirm.runtime.wire import SessionId
with tracing.span("x", parent="y", about=1):
    tracing.record_span("z", 0, parent=None)
assert (tracing.traceparent(), tracing.headers(), tracing.trace_id()) == (None, {}, None)
assert not [name for name in sys.modules if name.startswith("opentelemetry.")]
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)


async def test_a_server_elsewhere_is_told_which_trace_it_belongs_to(recorded: InMemorySpanExporter) -> None:
    heard: list[str | None] = []

    async def run(request: web.Request) -> web.Response:
        heard.append(request.headers.get("traceparent"))
        return web.Response(text='data: {"author": "clerk"}\n\n', content_type="text/event-stream")

    site = web.Application()
    site.router.add_post("/run_sse", run)
    async with TestServer(site) as server:
        remote = RemoteServer(str(server.make_url("")), "clerk")
        with tracing.span("run"):
            assert [event async for event in remote.run(SessionId("clerk", "ann", "s"), Content(), {})]
            here = tracing.traceparent()
        await remote.close()
    assert heard == [here]
    (span,) = recorded.get_finished_spans()
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" in (here or "")
