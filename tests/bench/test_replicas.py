"""Three replicas of `serve` as processes without faults: how fast one takes over for another."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types
import psycopg
import pytest

from bench.chaos.collecting import effects
from bench.chaos.office import Office, office
from bench.chaos.plan import Call, Click, Errand
from bench.filling import fill

TAKE_OVER = 15.0
TIMERS, ALL_FIRED = 1000, 30.0
SOME, CORES, PATIENCE = 50, 2, 180.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Office]:
    async with office(tmp_path) as running:
        yield running


async def until(look: Callable[[], bool], within: float, what: str) -> float:
    """Seconds until it is so."""
    began = time.monotonic()
    while not look():
        assert time.monotonic() - began < within, f"{what} took longer than {within:g} s"
        await asyncio.sleep(0.05)
    return time.monotonic() - began


async def test_another_replica_takes_over_the_session_of_one_that_is_killed(at: Office) -> None:
    long = Call("t0x0", "pay", 5, 600.0, (Click("bob", "Approve", 0.0),), "")
    await at.people.runs(Errand(0, 0.0, "north", "ann", 0.0, (long,), ()))
    await until(lambda: bool(effects(at)), 30, "the call's beginning")
    (begun,) = effects(at)
    (busy,) = [replica for replica in at.replicas if replica.pid == begun.pid]

    def is_asked_about() -> bool:
        found = at.people.card("t0x0")
        return found is not None and "Did this take effect? Pay" in found[1].text

    busy.kill(down_for=120)
    taken = await until(is_asked_about, TAKE_OVER, "taking over")
    print(f"another replica took over after {taken:.1f} s")
    assert [effect.phase for effect in effects(at)] == ["begins"]


async def test_a_thousand_timers_that_are_due_at_once_fire_within_half_a_minute_each_once(at: Office) -> None:
    """Or, where other programs take part of the machine, with the work that two cores do in half a minute."""
    began = time.time()
    await fill(at.url, SOME, app="chaos")
    due = time.time() + 10 + 2 * (time.time() - began) * TIMERS / SOME  # until then all of them are stored
    await fill(at.url, TIMERS, app="chaos", expires_at=due, first=SOME)
    assert time.time() < due, "the machine was too slow to fill the store in time"
    with psycopg.connect(at.url, autocommit=True) as connection:
        await asyncio.sleep(due - time.time())
        before, fired = work(at), Counter[str]()
        while sum(fired.values()) < TIMERS and time.time() < due + PATIENCE:
            await asyncio.sleep(0.5)
            rows = connection.execute("SELECT confirmation, at FROM bot_ledger WHERE kind = 'expired'").fetchall()
            fired = Counter(confirmation for confirmation, _ in rows)
        done, took = work(at) - before, max(at_ for _, at_ in rows) - due
        print(f"{len(fired)} of {TIMERS} fired within {took:.1f} s, with {done:.1f} s of work")
        assert len(fired) == TIMERS
        assert set(fired.values()) == {1}
        assert min(at_ for _, at_ in rows) >= due
        assert took < ALL_FIRED or done < CORES * ALL_FIRED


def work(at: Office) -> float:
    """Seconds of processors that the replicas and PostgreSQL have used."""
    replicas = [psutil.Process(replica.pid) for replica in at.replicas]
    server = psutil.Process(at.postgres.pid)
    times = [one.cpu_times() for one in (*replicas, server, *server.children(recursive=True))]
    return float(sum(one.user + one.system for one in times))
