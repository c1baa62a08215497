"""The parts below `Slack`: the limiter, look-ups that ask once, and attempts that survive a crash."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_confirm.bot.slack.lookups import LookupCache
from adk_confirm.bot.slack.rate_limits import Limiter, Rate
from adk_confirm.bot.slack.troubles import Later
from adk_confirm.bot.store.marks import KEPT, begin_attempt, earlier_attempt
from adk_confirm.bot.store.open import open_store
from adk_confirm.runtime.errors import NotFound
from adk_confirm.runtime.store.database import Database
from tests.support.stores import SECRET


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# Windows


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.floats(0, 3), st.sampled_from([0.0, 0.0, 0.0, 2.5])), min_size=1, max_size=40),
)
def test_no_window_ever_holds_more_than_its_limit(most: int, calls: list[tuple[float, float]]) -> None:
    """However fast they come, and whatever Slack says in between."""
    time = Time()
    limiter, rate = Limiter(time), ("k", most, 4.0)
    made: list[float] = []
    for pause, closed in calls:
        time.now += pause
        if closed:
            limiter.close(rate, closed)
        at = time.now + limiter.take("any", [rate], 1e9)
        assert at >= time.now + closed
        made.append(at)
    assert made == sorted(made)
    assert all(later - earlier >= 4.0 - 1e-6 for earlier, later in zip(made, made[most:], strict=False))


@given(st.integers(1, 5), st.integers(1, 200), st.integers(1, 4))
def test_whoever_is_sent_away_comes_back_to_a_slot(most: int, waiting: int, times: int) -> None:
    """However many there are, and however often they came too early: each in its turn, and nobody is sent away twice
    from then on."""
    time = Time()
    limiter, rate = Limiter(time), ("k", most, 5.0)
    for _ in range(most):
        limiter.take("any", [rate])
    for _ in range(times):
        back = [sent_away(limiter, rate, n, time) for n in range(waiting)]
    assert back == sorted(back)
    assert back[-1] == pytest.approx(105.0 + (waiting - 1) * 5.0 / most)
    for n, at in enumerate(back):
        time.now = max(time.now, at)
        assert limiter.take("any", [rate], 5.0, who=n) <= 5.0


def sent_away(limiter: Limiter, rate: Rate, who: int, time: Time) -> float:
    """When to come back."""
    with pytest.raises(Later) as later:
        limiter.take("any", [rate], who=who)
    return time.now + later.value.after


# Look-ups


class Asked:
    """A question that is answered when a test says so."""

    def __init__(self) -> None:
        self.times, self.given_up = 0, 0
        self.begun, self.answered = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> int:
        self.times += 1
        self.begun.set()
        try:
            await self.answered.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return self.times


async def test_whoever_still_waits_gets_the_answer_when_others_gave_up() -> None:
    lookups, asked = LookupCache[str, int](), Asked()
    first, second = (asyncio.create_task(lookups.get("key", asked)) for _ in range(2))
    await asked.begun.wait()
    first.cancel()
    await asyncio.wait({first})
    asked.answered.set()
    assert await second == 1
    assert lookups.peek("key") == 1
    assert asked.given_up == 0


async def test_what_nobody_waits_for_is_not_asked_any_more_and_can_be_asked_anew() -> None:
    lookups, asked = LookupCache[str, int](), Asked()
    only = asyncio.create_task(lookups.get("key", asked))
    await asked.begun.wait()
    only.cancel()
    again = asyncio.create_task(lookups.get("key", asked))  # begun before the first question has ended
    with pytest.raises(asyncio.CancelledError):
        await only
    asked.answered.set()
    assert await again == 2
    assert asked.given_up == 1


async def test_what_raises_is_asked_again_and_what_is_no_good_is_not_kept() -> None:
    lookups: LookupCache[str, int] = LookupCache(30.0, good=lambda answer: answer > 0)
    answers: Iterator[int | NotFound] = iter([NotFound("nothing"), 0, 5])

    async def ask() -> int:
        answer = next(answers)
        if isinstance(answer, NotFound):
            raise answer
        return answer

    with pytest.raises(NotFound):
        await lookups.get("k", ask)
    assert await lookups.get("k", ask) == 0
    assert lookups.peek("k") is None
    assert await lookups.get("k", ask) == 5


async def test_an_answer_is_as_old_as_its_question_and_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adk_confirm.bot.slack.lookups._MOST", 3)
    time = Time()
    lookups: LookupCache[int, int] = LookupCache(30.0, clock=time)

    async def slowly() -> int:
        time.now += 20
        return 1

    await lookups.get(0, slowly)
    time.now += 11
    assert lookups.peek(0) is None
    for n in range(1, 5):
        await lookups.get(n, slowly)
    assert len(lookups._known) == 3


async def test_an_answer_is_too_old_by_either_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steady clock of a machine that was paused stands still."""
    lookups: LookupCache[int, int] = LookupCache(30.0, clock=Time())
    lookups.put(0, 1)
    assert lookups.peek(0) == 1
    later = time.time() + 31
    monkeypatch.setattr("time.time", lambda: later)
    assert lookups.peek(0) is None


# Attempts


async def test_attempts_of_a_month_ago_go(sqlite_url: str) -> None:
    time = Time()
    await (await open_store(sqlite_url, SECRET)).close()
    database = await Database.open(sqlite_url, clock=time)
    await database.run(begin_attempt, "s", "said:1")
    time.now += KEPT + 1
    assert await database.run(begin_attempt, "s", "said:1") is not None  # asked for, it still counts
    await database.run(begin_attempt, "s", "said:2")
    assert await database.read(earlier_attempt, "s", "said:1") is None
    await database.close()
