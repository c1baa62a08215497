"""Points in time as operators write and read them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_confirm.bot.ops.command import format_time, parse_time
from adk_confirm.runtime.errors import Invalid

NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """The reader's time zone: UTC, or what the test sets."""

    def set_zone(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    set_zone("UTC")
    yield set_zone
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2030-01-30", "2030-01-30 00:00:00 UTC"),
        ("2030-01-30T18:00", "2030-01-30 18:00:00 UTC"),
        ("2030-01-30 18:00:05", "2030-01-30 18:00:05 UTC"),
        ("2030-01-30T18:00+02:00", "2030-01-30 16:00:00 UTC"),
        ("2030-01-30T18:00Z", "2030-01-30 18:00:00 UTC"),
        ("90m", "2030-01-31 10:30:00 UTC"),
        ("2d", "2030-01-29 12:00:00 UTC"),
    ],
)
def test_what_is_meant(text: str, meant: str) -> None:
    assert format_time(parse_time(text, "--since", NOON)) == meant


def test_times_are_the_readers(zone: Callable[[str], None]) -> None:
    zone("Europe/Berlin")
    assert format_time(NOON) == "2030-01-31 13:00:00 CET"
    assert format_time(parse_time("2030-07-01", "--since", NOON)) == "2030-07-01 00:00:00 CEST"
    assert parse_time("2030-03-31", "--until", NOON, end=True) - parse_time("2030-03-31", "--since", NOON) == timedelta(
        hours=23
    )


@given(day=st.dates(max_value=date(9999, 12, 30)))
def test_a_day_is_meant_whole(day: date) -> None:
    first, after = parse_time(str(day), "--since", NOON), parse_time(str(day), "--until", NOON, end=True)
    assert after - first == timedelta(days=1)
    assert (first.date(), after.date()) == (day, day + timedelta(days=1))


@given(text=st.text() | st.sampled_from(["9999-12-31", "0001-01-01T00:00+14:00", "99999999d", "-1d", "2030-13-01"]))
def test_anything_else_is_refused_in_a_sentence(text: str) -> None:
    for end in (False, True):
        said = ""
        try:
            assert parse_time(text, "--since", NOON, end=end).tzinfo is UTC
        except Invalid as refusal:
            said = str(refusal)
        assert said.startswith(f"--since {text!r} is not a point in time. Write 2030-01-31, " if said else "")
