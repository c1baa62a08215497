"""Durations as people write them in a file ("10m", "1h30m") and read them in a sentence. Pure."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_SHAPE = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)
LONGEST = timedelta(days=366)


def parse_duration(value: object) -> timedelta:
    """
    >>> parse_duration("1h30m")
    datetime.timedelta(seconds=5400)
    """
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise ValueError(f'must be a text such as "30s", "10m", "1h" or "2d", not {value!r}')
    match = _SHAPE.fullmatch(value.strip())
    if match is None or not any(match.groups()):
        raise ValueError(f'must be a duration such as "30s", "10m", "1h" or "2d", not "{value}"')
    seconds = sum(int(n or 0) * unit for n, unit in zip(match.groups(), _UNITS.values(), strict=True))
    if not 0 < seconds <= LONGEST.total_seconds():
        raise ValueError(f'must be longer than nothing and at most 366d, not "{value}"')
    return timedelta(seconds=seconds)


def spell_duration(duration: timedelta) -> str:
    """
    >>> spell_duration(timedelta(minutes=90))
    '1h30m'
    """
    left, parts = round(duration.total_seconds()), []
    for unit, seconds in _UNITS.items():
        n, left = divmod(left, seconds)
        if n:
            parts.append(f"{n}{unit}")
    return "".join(parts) or "0s"


Duration = Annotated[
    timedelta, PlainValidator(parse_duration), PlainSerializer(spell_duration, return_type=str, when_used="json")
]
