"""How an operator types and reads a point in time (a day, an instant, or a time ago, in the machine's time zone), and
reads where a session is."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta

from adk_confirm.bot.ops.command import DATES
from adk_confirm.bot.policy.durations import parse_duration
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json


def parse_time(text: str, option: str, now: datetime, *, end: bool = False) -> datetime:
    """Reads a time or a day. A day means its first moment. With `end`, as for "until", it means the first moment of the
    next day.

    >>> noon = datetime(2030, 1, 31, 12, tzinfo=UTC)
    >>> str(parse_time("2030-01-30T00:00Z", "--since", noon)), str(parse_time("36h", "--since", noon))
    ('2030-01-30 00:00:00+00:00', '2030-01-30 00:00:00+00:00')
    """
    with suppress(ValueError):
        day = date.fromisoformat(text)
        if end and day == date.max:
            return datetime.max.replace(tzinfo=UTC)
        return _to_utc(datetime.combine(day + timedelta(days=end), time()))
    with suppress(ValueError):
        return _to_utc(datetime.fromisoformat(text))
    try:
        return now - parse_duration(text)
    except ValueError:
        raise Invalid(f"{option} {text!r} is not a point in time. Write {DATES}.") from None


def format_time(at: datetime) -> str:
    """In the reader's time zone, which is that of the machine (or `TZ`).

    >>> format_time(datetime(2030, 1, 31, 12, 0, 7, tzinfo=UTC))[:8]
    '2030-01-'
    """
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def read_stamp(value: Json) -> datetime:
    """A time as --json prints it."""
    return datetime.fromisoformat(str(value))


def _to_utc(at: datetime) -> datetime:
    """A time without a zone is in the machine's zone."""
    try:
        return (at.astimezone() if at.tzinfo is None else at).astimezone(UTC)
    except (OverflowError, ValueError, OSError):  # beyond the first or the last year
        return at.replace(tzinfo=UTC)


# Places

_PLACE = re.compile(r"slack-T[A-Z0-9_]+-(?P<channel>[CGD][A-Z0-9_]+)-[\d.]+$")


def channel_of(session: str) -> str | None:
    """The channel of a session that Slack opened, from its id or its chain.

    >>> channel_of("oncall/slack-T0ACME-U0ANN/slack-T0ACME-C0DEPLOYS-1700000000.000100")
    'C0DEPLOYS'
    """
    found = _PLACE.search(session)
    return found["channel"] if found else None


_CALLER = re.compile(r"door/slack-T[A-Z0-9_]+-caller-(?P<name>[a-z0-9_-]+)/")


def caller_of(chain: str) -> str | None:
    """The program at the door whose ask a chain is about.

    >>> caller_of("door/slack-T0ACME-caller-ci/slack-ask-1234")
    'ci'
    """
    found = _CALLER.match(chain)
    return found["name"] if found else None
