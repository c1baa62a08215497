"""Durations, as people write them in the file ("10m", "1h30m") and read them in a sentence. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal

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
        raise ValueError(f'must be more than zero and at most 366d, not "{value}"')
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


@dataclass(frozen=True)
class GrantTerms:
    """How long a grant lasts, and for how many calls (None: any number)."""

    length: timedelta | Literal["session"]
    uses: int | None = None


def parse_grant(value: object) -> GrantTerms:
    """
    >>> parse_grant({"for": "30m", "uses": 3})
    GrantTerms(length=datetime.timedelta(seconds=1800), uses=3)
    """
    if isinstance(value, GrantTerms):
        return value
    table = value if isinstance(value, dict) else {"for": value}
    if strange := set(table) - {"for", "uses"}:
        raise ValueError(f'takes "for" and "uses", not "{min(map(str, strange))}"')
    if "for" not in table:
        raise ValueError('needs "for", such as { for = "30m", uses = 3 }')
    length, uses = table["for"], table.get("uses")
    if uses is not None and (type(uses) is not int or uses < 1):
        raise ValueError(f"uses must be a whole number of at least 1, not {uses!r}")
    return GrantTerms("session" if length == "session" else parse_duration(length), uses)


def spell_grant(grant: GrantTerms) -> str | dict[str, str | int]:
    length = "session" if grant.length == "session" else spell_duration(grant.length)
    return length if grant.uses is None else {"for": length, "uses": grant.uses}


GrantKey = Annotated[GrantTerms, PlainValidator(parse_grant), PlainSerializer(spell_grant)]
Duration = Annotated[
    timedelta, PlainValidator(parse_duration), PlainSerializer(spell_duration, return_type=str, when_used="json")
]
