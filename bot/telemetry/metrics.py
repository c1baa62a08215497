"""The Prometheus metrics of the bot.

They come from three sources: what the transactions of this process report after they commit, how long Slack and our
acks to it take, and, at each scrape, facts from the store. The first two belong to this replica (add them up over all
replicas). The last are the same in every replica (take the maximum). What a command decides
in a process of its own is counted nowhere.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from adk_confirm.bot.audit.ledger import LedgerLine, LineKind
from adk_confirm.bot.confirmation.confirmation import State
from adk_confirm.bot.confirmation.states import Transition
from adk_confirm.bot.store.cast_vote import RefusedAgain
from adk_confirm.bot.store.letters import read_pause
from adk_confirm.bot.store.outbox import Unanswered
from adk_confirm.bot.store.repository import JOBS
from adk_confirm.bot.store.transactions import VotesShown
from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.store.database import Database, Tx

# SQLite uses a partial index only for the exact condition that it was made with, so the value is not a parameter here.
_WAITING = "SELECT count(*) FROM bot_confirmations WHERE state = 'waiting'"
_UNKNOWN = "SELECT count(*) FROM bot_confirmations WHERE outcome = 'unknown'"
RUNNING = "SELECT count(*) FROM bot_confirmations WHERE outcome = 'running'"
_PARKED = "SELECT kind, count(*) AS n FROM jobs WHERE parked_at IS NOT NULL GROUP BY kind"
# Since when the oldest job has waited, whether it was never tried or was put off.
_NEVER_TRIED = """
    SELECT j.due_at FROM jobs j LEFT JOIN jobs s ON s.kind = 'session' AND s.key = coalesce(j.owner, j.key)
    WHERE j.kind = :kind AND j.due_at <= :now AND (s.lease_until IS NULL OR s.lease_until <= :now)
    ORDER BY j.due_at LIMIT 1
"""
_PUT_OFF = "SELECT min(owed_since) FROM jobs WHERE owed_since IS NOT NULL"


def read_gauges(tx: Tx) -> list[GaugeMetricFamily]:
    now = tx.now()
    owed = [tx.value(_NEVER_TRIED, kind=kind, now=now) for kind in JOBS] + [tx.value(_PUT_OFF)]
    oldest = max(0.0, now - min((at for at in owed if at is not None), default=now))
    parked = GaugeMetricFamily("adk_confirm_parked", "Rows that are not retried any more.", labels=("kind",))
    for kind, count in (dict.fromkeys(JOBS, 0) | {row.kind: row.n for row in tx.all(_PARKED)}).items():
        parked.add_metric((kind,), count)
    return [
        GaugeMetricFamily("adk_confirm_waiting", "Confirmations that wait for people.", tx.value(_WAITING)),
        GaugeMetricFamily("adk_confirm_running", "Approved calls whose tools run now.", tx.value(RUNNING)),
        GaugeMetricFamily("adk_confirm_unknown", "Calls that may have taken effect.", tx.value(_UNKNOWN)),
        GaugeMetricFamily("adk_confirm_oldest_owed_seconds", "How long the oldest piece of work waits.", oldest),
        GaugeMetricFamily("adk_confirm_paused", "Whether all runs are paused.", float(read_pause(tx) is not None)),
        parked,
    ]


log = logging.getLogger(__name__)

OTHER = "other"
MOST_TOOLS, MOST_CODES, MOST_KINDS = 100, 50, 20
READING = 5.0
KEPT, SHARE = 1.0, 20
"""The store is read at most once in this many seconds, however many scrapers there are, and for at most this share of
the time: counting a hundred thousand rows that PostgreSQL has not vacuumed takes a while."""

_VERDICTS = {
    **{LineKind(kind): kind for kind in ("approved", "denied", "expired", "withdrawn", "lapsed")},
    **{LineKind.ASKED_ANEW: "withdrawn", LineKind.ELSEWHERE: "elsewhere", LineKind.GRANT_USED: "granted"},
}
"""Steps that decide. `lapsed` comes after an `approved` that never began; `granted` means that nobody was asked."""
_NO_WAIT = ("lapsed", "granted")

_QUICK = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 3.0, 10.0)
_SLOWER = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_PATIENT = (10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 8 * 3600.0, 24 * 3600.0, 72 * 3600.0)


class BoundedLabel:
    """Limits the values of a label: the first few get a series each, and all others share one."""

    def __init__(self, most: int) -> None:
        self._most, self._known = most, set[str]()

    def __call__(self, value: str) -> str:
        if value not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(value)
        return value


class Metrics:
    """The bot's metrics: `heard` listens to the store, `called` measures calls to Slack, `acked` our answers to Slack,
    and `task_…` watches background tasks."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._clock = database, clock
        disable_created_metrics()  # type: ignore[no-untyped-call]  # for each counter a series that says when it began
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._gauges = _Facts()
        registry.register(self._gauges)
        self._read_again, self._reading = float("-inf"), asyncio.Lock()
        self._tool, self._code, self._kind = map(BoundedLabel, (MOST_TOOLS, MOST_CODES, MOST_KINDS))
        self._decided = self._counter("decided", "Confirmations decided.", "verdict", "tool")
        self._of_callers = self._counter("callers_decided", "Confirmations of callers, decided.", "verdict", "caller")
        self._refused_callers = self._counter("door_refused", "Requests of callers that were too many.", "caller")
        self._outside = self._counter("outside_answers", "Answers to a request that did not come from here.")
        self._altered = self._counter("altered_calls", "Calls that did not run: they were not what had been approved.")
        self._unsealed = self._counter("unsealed", "Rows that are void, because they did not come through this app.")
        self._refused_again = self._counter("refused_again", "Refused clicks that got no line in the ledger.")
        self._unanswered = self._counter("unanswered_pauses", "Times that an agent waited for something else.", "kind")
        self._not_acked = self._counter("clicks_not_acked", "Clicks that the bot could not store.", "way")
        self._slack_errors = self._counter("slack_errors", "Calls that Slack did not do.", "method", "code")
        self._rate_limited = self._counter("slack_rate_limited", "Calls that Slack answered with a 429.", "method")
        decided = "From the request to the decision."
        self._time_to_decision = self._seconds("time_to_decision", decided, _PATIENT, "verdict")
        self._click_to_ack = self._seconds("click_to_ack", "From a click to its ack.", _QUICK, "way")
        self._click_to_card = self._seconds("click_to_card", "From a click to its cards.", _SLOWER)
        self._slack = self._seconds("slack_call", "Calls to Slack.", _SLOWER, "method")
        self._down = self._gauge("task_down", "Background tasks that failed.", "task")
        self._outdated = self._gauge("settings_outdated", "Whether the settings file differs from those in force.")
        self._digest = self._gauge("settings_info", "Which settings are in force.", "digest")
        self._restarts = self._counter("task_restarts", "Background tasks that were started again.", "task")

    def _gauge(self, name: str, says: str, *labels: str) -> Gauge:
        return Gauge(f"adk_confirm_{name}", says, labels, registry=self._registry)

    def _counter(self, name: str, says: str, *labels: str) -> Counter:
        return Counter(f"adk_confirm_{name}", says, labels, registry=self._registry)

    def _seconds(self, name: str, says: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"adk_confirm_{name}_seconds", says, labels, buckets=buckets, registry=self._registry)

    def heard(self, fact: object) -> None:
        match fact:
            case Transition():
                self._count_change(fact)
            case LedgerLine():
                self._unsealed.inc(fact.kind is LineKind.UNSEALED)
            case RefusedAgain(clicks):
                self._refused_again.inc(clicks)
            case Unanswered(kind):
                self._unanswered.labels(self._kind(kind)).inc()
            case VotesShown(seconds):
                for waited in seconds:
                    self._click_to_card.observe(waited)

    def _count_change(self, change: Transition) -> None:
        self._outside.inc(sum(step.kind is LineKind.ELSEWHERE for step in change.steps))
        self._altered.inc(sum(step.kind is LineKind.ALTERED for step in change.steps))
        row = change.row
        for step in change.steps:
            verdict = _VERDICTS.get(step.kind)
            if verdict is None or (step.kind is LineKind.ELSEWHERE and step.text != State.WAITING):
                continue  # a decision made here earlier is not counted again
            if row.asked.question and step.kind is LineKind.APPROVED:
                verdict = "answered"
            self._decided.labels(verdict, self._tool(row.asked.tool)).inc()
            if row.asked.by_caller:
                self._of_callers.labels(verdict, row.asked.agent).inc()
            if row.decision is not None and verdict not in _NO_WAIT:
                self._time_to_decision.labels(verdict).observe((row.decision.at - row.asked_at).total_seconds())

    def called(self, method: str, outcome: str, seconds: float) -> None:
        self._slack.labels(method).observe(seconds)
        if outcome == "ratelimited":
            self._rate_limited.labels(method).inc()
        elif outcome != "ok":
            self._slack_errors.labels(method, self._code(outcome)).inc()

    def acked(self, way: str, seconds: float, stored: bool) -> None:
        if stored:
            self._click_to_ack.labels(way).observe(seconds)
        else:
            self._not_acked.labels(way).inc()

    def refused_at_door(self, caller: str) -> None:
        self._refused_callers.labels(caller).inc()

    def settings(self, digest: str, trouble: str | None) -> None:
        self._outdated.set(trouble is not None)
        self._digest.clear()
        self._digest.labels(digest).set(1)

    def task_is_down(self, task: str, down: bool) -> None:
        self._down.labels(task).set(down)

    def task_was_restarted(self, task: str) -> None:
        self._restarts.labels(task).inc()

    async def page(self, accept: str) -> tuple[bytes, str]:
        """The metrics in the requested format, and its content type."""
        async with self._reading:
            began = self._clock()
            if began >= self._read_again:
                self._gauges.facts = await self._read()
                took = self._clock() - began
                self._read_again = began + took + max(KEPT, SHARE * took)
        encode, content_type = choose_encoder(accept)
        return await asyncio.to_thread(encode, self._registry), content_type

    async def _read(self) -> list[GaugeMetricFamily] | None:
        try:
            async with asyncio.timeout(READING):
                return await self._database.read(read_gauges)
        except (ConfirmError, TimeoutError):
            return None
        except Exception:
            log.exception("the gauges could not be read")
            return None  # this process's own counts matter most when the store fails


class _Facts(Collector):
    """The figures from the last look at the store. While the store does not answer there are none, instead of old
    ones."""

    facts: list[GaugeMetricFamily] | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        up = float(self.facts is not None)
        yield GaugeMetricFamily("adk_confirm_store_up", "Whether the store answers.", up)
        yield from self.facts or ()
