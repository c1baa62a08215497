"""Points in time as an operator types and reads them: a day, an instant, "so long ago". Pure; without a zone, UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from bot.policy.durations import parse_duration, spell_duration
from runtime.errors import Invalid

EXAMPLES = "2030-01-31, 2030-01-31T18:00, 2030-01-31T18:00+01:00, or 90d for 90 days ago"


def begins(text: str, option: str, now: datetime) -> datetime:
    """What is meant by "from" or "before": a day is meant from its first moment on.

    >>> noon = datetime(2030, 1, 31, 12, tzinfo=UTC)
    >>> str(begins("2030-01-30", "--since", noon)), str(begins("36h", "--since", noon))
    ('2030-01-30 00:00:00+00:00', '2030-01-30 00:00:00+00:00')
    """
    day = _day(text)
    return _midnight(day) if day is not None else _instant(text, option, now)


def ends(text: str, option: str, now: datetime) -> datetime:
    """What is meant by "until": a day is meant to its end. What lies at this moment is not meant any more.

    >>> str(ends("2030-01-30", "--until", datetime(2030, 1, 31, 12, tzinfo=UTC)))
    '2030-01-31 00:00:00+00:00'
    """
    day = _day(text)
    if day is None:
        return _instant(text, option, now)
    return _midnight(day) + timedelta(days=1) if day < date.max else datetime.max.replace(tzinfo=UTC)


def spelled(at: datetime) -> str:
    """
    >>> spelled(datetime(2030, 1, 31, 12, 0, 7, tzinfo=UTC))
    '2030-01-31 12:00:07 UTC'
    """
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def roughly(length: timedelta) -> str:
    """The two largest units of it: nobody counts the seconds of three days.

    >>> roughly(timedelta(days=3, hours=2, minutes=5)), roughly(timedelta(seconds=90)), roughly(timedelta(seconds=-5))
    ('3d2h', '1m30s', '0s')
    """
    seconds = max(0, int(length.total_seconds()))
    for unit, coarser in ((3_600, 86_400), (60, 3_600)):
        if seconds >= coarser:
            seconds -= seconds % unit
            break
    return spell_duration(timedelta(seconds=seconds))


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _instant(text: str, option: str, now: datetime) -> datetime:
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        pass  # then it is a duration, or nothing
    try:
        return now - parse_duration(text)
    except ValueError:
        raise Invalid(f"{option} {text!r} is no point in time: write {EXAMPLES}.") from None
