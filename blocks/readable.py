"""Shows a value as people read it: grouped numbers, dates in words, lists as lines. For exact JSON see `exact_values`.

A policy's `format` says how to show a value: a currency, bytes, a duration, a link. No digit is ever rounded away, and
every string from an agent is in a span of its own, so that two values can't look like one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from urllib.parse import urlsplit

from pydantic import JsonValue

from adk_confirm.blocks import words
from adk_confirm.blocks.exact_values import json_text, spell_on_one_line, spell_value
from adk_confirm.blocks.rich_text import Line, Link, Say, Supplied, TextSpan, When, join, spoken
from adk_confirm.blocks.text import fit_visible, right_to_left, units, visible
from adk_confirm.runtime.titles import CURRENCIES

WIDTH = 43
"""Roughly how many characters fit on a line on a phone."""
_ITEMS = 100
_SYMBOLS = {currency: symbol for symbol, currency in CURRENCIES.items()}
_NO_CENTS = {"CLP", "ISK", "JPY", "KRW", "VND"}
_SECONDS = {"seconds": Decimal(1), "milliseconds": Decimal("0.001"), "minutes": Decimal(60), "hours": Decimal(3600)}
_UNGROUPED = {"id", "year", "port", "pid", "number", "code", "zip", "phone", "account", "version", "timestamp", "ts"}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NUMBER = re.compile(r"(?!.{25})-?[0-9]+(?:\.[0-9]+)?", re.ASCII)  # so short that a decimal rounds no product of it
_LINK = re.compile(r"https://[!-~]+", re.ASCII)
_ISO = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?P<time>[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,](?P<fraction>[0-9]+))?)?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_LONGEST_ISO = 40
_MOST_SECONDS = 10**10
_OUR_DOT = re.compile(r"(?<!\S)[·•‧∙⋅・](?!\S)")


@dataclass(frozen=True, slots=True)
class Readable:
    """A value to show: `beside` on the line of its name, `below` on lines of its own. `whole` is False if something was
    left out."""

    beside: tuple[TextSpan, ...] = ()
    below: tuple[Line, ...] = ()
    whole: bool = True
    box: bool = False
    """It needs a box of its own, with the text that `values.spell_value` returns."""


BOXED = Readable(box=True)


def readable(value: JsonValue, name: str, formats: Mapping[str, str], limit: int, lines: int) -> Readable:
    """The value as people read it, cut to this many units and lines."""
    match value:
        case dict():
            return _object(value, formats, limit, lines)
        case list():
            return _list(value, name, formats, limit, lines)
        case str() if formats.get("") is None and not _moment(value):
            written = spell_value(value, limit + _ITEMS)
            if written.boxed and ("\n" in value.rstrip("\n") or right_to_left(value)):
                return BOXED
            fitted = fit_visible(written.text, limit)
            return Readable((Supplied(fitted.text),), whole=fitted.whole)
    span = scalar(value, formats.get(""), name)
    text = spoken(span)
    if units(text) <= limit:
        return Readable((span,))
    return Readable((Supplied(fit_visible(text, limit).text),), whole=False)


def scalar(value: JsonValue, kind: str | None, name: str) -> TextSpan:
    """A value inside a sentence: always one span."""
    if kind is not None and (span := _format(value, kind)) is not None:
        return span
    match value:
        case None:
            return Say(words.NONE)
        case bool():
            return Say(words.YES if value else words.NO)
        case int() | float():
            plain = kind == "plain" or not _UNGROUPED.isdisjoint(map(str.lower, _WORD.findall(name)))
            return Say(_number(value, plain=plain))
        case str():
            return _moment(value) or Supplied(spell_on_one_line(value))
        case []:
            return Say(words.EMPTY_LIST)
    return Supplied(spell_on_one_line(value, _ITEMS * 10))


# -- numbers, dates, links


def _number(value: float, *, plain: bool = False) -> str:
    if isinstance(value, int) and value.bit_length() > 64:
        return json_text(value)
    text = repr(value)
    if plain or not _NUMBER.fullmatch(text):
        return text
    return _group_digits(text)


def _group_digits(digits: str) -> str:
    whole, point, rest = digits.partition(".")
    return f"{int(whole):,}{point}{rest}" if whole != "-0" else digits


def _format(value: JsonValue, kind: str) -> TextSpan | None:
    """The formatted value. None if it is not of the kind that the policy expects."""
    if kind == "link":
        return _link(value) if isinstance(value, str) else None
    text = value if isinstance(value, str) else repr(value)
    if isinstance(value, bool) or kind == "plain" or not _NUMBER.fullmatch(text):
        return None
    number = Decimal(text)
    if kind == "bytes":
        return Say(_bytes(text, number)) if number >= 0 else None
    if kind == "time":
        whole = 0 <= number < _MOST_SECONDS and number == int(number)
        return When(int(number), seconds=bool(number % 60)) if whole else None
    if kind in _SECONDS:
        return _duration(number * _SECONDS[kind])
    return Say(_money(text, kind))


def _money(digits: str, currency: str) -> str:
    whole, _, cents = digits.partition(".")
    cents = cents.rstrip("0") if currency in _NO_CENTS else cents.rstrip("0").ljust(2, "0")
    amount = f"{_group_digits(whole)}.{cents}" if cents else _group_digits(whole)
    symbol = _SYMBOLS.get(currency, f"{currency} ")
    return f"-{symbol}{amount[1:]}" if amount.startswith("-") else f"{symbol}{amount}"


def _bytes(digits: str, number: Decimal) -> str:
    exact = f"{_group_digits(digits)} byte{'' if number == 1 else 's'}"
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "KB")):
        if number >= 1000**power:
            return f"{number / 1000**power:.1f} {unit} ({exact})"
    return exact


def _duration(seconds: Decimal) -> TextSpan | None:
    if not 0 <= seconds < _MOST_SECONDS:
        return None
    if seconds != int(seconds):
        return Say(f"{seconds.normalize():f} s")
    return Say(" ".join(words.units_of_time(int(seconds))))


def _moment(value: str) -> TextSpan | None:
    """An ISO date or time. A time with a zone is shown in the reader's zone. A date, or a time without a zone, is the
    same for everybody."""
    found = _ISO.fullmatch(value) if len(value) <= _LONGEST_ISO else None
    if found is None:
        return None
    try:
        if not found["time"]:
            return Say(_day(date.fromisoformat(value)))
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    fraction = (found["fraction"] or "").rstrip("0")
    seconds = bool(at.second or fraction)
    if at.tzinfo is None:
        clock = f"{at:%H:%M:%S}" if seconds else f"{at:%H:%M}"
        return Say(
            "{day} at {time} (no time zone)".format(day=_day(at), time=f"{clock}.{fraction}" if fraction else clock)
        )
    second = at.replace(microsecond=0).timestamp()
    if not 0 <= second < _MOST_SECONDS:
        return None
    return When(int(second), seconds=seconds, fraction=fraction)


def _day(day: date) -> str:
    return f"{day:%a}, {day.day} {day:%b} {day.year}"


def _link(value: str) -> TextSpan | None:
    """The host comes first, and is the one that the link leads to."""
    if not _LINK.fullmatch(value) or "@" in value or any(mark in value for mark in '<>|"'):
        return None
    try:
        host = urlsplit(value).hostname
    except ValueError:
        return None
    return Link(value, value.removeprefix("https://")) if host and len(value) <= 300 else None


# -- lists and objects


def _list(value: Sequence[JsonValue], name: str, formats: Mapping[str, str], limit: int, lines: int) -> Readable:
    if not value:
        return Readable((Say(words.EMPTY_LIST),))
    if any(isinstance(item, dict | list) for item in value[:_ITEMS]):
        return _rows(value, formats, limit, lines)
    spans = [scalar(item, formats.get(""), name) for item in value[:_ITEMS]]
    if len(value) <= _ITEMS and _length(spans) <= limit and not any(right_to_left(spoken(span)) for span in spans):
        return Readable(join(spans))
    kept = [span for at, span in enumerate(spans[:_SHOWN]) if _length(spans[: at + 1]) + _LEFT <= limit]
    if not kept:
        return Readable((Say(words.counted(len(value))),), whole=False)
    more = Say(f" and {len(value) - len(kept):,} more")
    return Readable((Say(f"{len(value):,}"), Say(": "), *join(kept), more), whole=False)


_SHOWN, _LEFT = 2, 20  # of a long list; the room for how many more there are


def _rows(value: Sequence[JsonValue], formats: Mapping[str, str], limit: int, lines: int) -> Readable:
    """A list of objects: a line for each."""
    drawn = [_members(item, formats) for item in value[: lines + 1]]
    room = WIDTH * lines
    kept: list[tuple[TextSpan, ...]] = []
    for row in drawn[:lines]:
        if row is None or _length(row) > min(room, limit):
            break
        room -= max(WIDTH, _length(row))
        kept.append(row)
    whole = len(kept) == len(value)
    if not kept:
        return _as_json(list(value))
    if not whole:
        kept = kept[: max(lines - 1, 0)]
    below = [Line(row, item=1) for row in kept]
    if not whole and kept:
        below.append(Line((Say("… and {count} more".format(count=f"{len(value) - len(kept):,}")),)))
    return Readable((Say(words.counted(len(value)) + _total(value, formats)),), tuple(below), whole=whole)


def _total(rows: Sequence[JsonValue], formats: Mapping[str, str]) -> str:
    """`, €1,499.50 in total`: of the first amount of money that all rows have."""
    for key, kind in formats.items():
        amounts = [repr(row.get(key)) for row in rows if isinstance(row, dict)]
        if kind.isupper() and len(rows) == sum(1 for one in amounts if _NUMBER.fullmatch(one)) > 1:
            return f", {_money(format(sum(map(Decimal, amounts)), 'f'), kind)} in total"
    return ""


def _object(value: Mapping[str, JsonValue], formats: Mapping[str, str], limit: int, lines: int) -> Readable:
    if not value:
        return Readable((Say(words.EMPTY),))
    row = _members(dict(value), formats)
    if row is not None and _length(row) <= min(limit, WIDTH * lines):
        return Readable(row)
    if any(isinstance(inner, list) and len(inner) > _MEMBERS for inner in value.values()) and len(value) <= lines:
        return _by_member(value, formats) or _as_json(dict(value))
    return _as_json(dict(value))


def _by_member(value: Mapping[str, JsonValue], formats: Mapping[str, str]) -> Readable | None:
    """A line for each member, long lists with their count. None if one does not fit into a line."""
    below, whole = list[Line](), True
    for key, inner in value.items():
        name = visible(readable_name(key)) or '""'
        shown = readable(inner, key, {"": formats[key]} if key in formats else {}, WIDTH - len(name), 1)
        if shown.box or shown.below or "\n" in name:
            return None
        whole = whole and shown.whole
        row = (Supplied(name, bold=True), Say(" "), *shown.beside)
        if isinstance(inner, list) and not shown.whole and (head := words.counted(len(inner), key)).endswith(name):
            row = (Say(head), *shown.beside[1:])  # `60 recipients: …`, not `recipients 60 items: …`
        below.append(Line(row, item=1))
    return Readable((), tuple(below), whole=whole)


def _as_json(value: JsonValue) -> Readable:
    found = spell_value(value, _ITEMS)
    return BOXED if found.boxed else Readable((Supplied(found.text),))


_MEMBERS, _LONG = 8, 300


def _members(value: JsonValue, formats: Mapping[str, str]) -> tuple[TextSpan, ...] | None:
    """`item Train · amount €120`. None if it is too long for a line."""
    if not isinstance(value, dict):
        return (scalar(value, formats.get(""), ""),) if not isinstance(value, list) else None
    if not value or len(value) > _MEMBERS:
        return None
    parts: list[TextSpan] = []
    for key, inner in value.items():
        if isinstance(inner, dict) or (isinstance(inner, list) and any(isinstance(i, dict | list) for i in inner)):
            return None
        texts = [key, inner] if isinstance(inner, str) else [key]
        if any(len(text) > _LONG or right_to_left(text) or "\n" in text for text in texts):
            return None
        if isinstance(inner, list) and (len(inner) > _MEMBERS or not inner):
            return None
        parts += [Say(words.DOT)] if parts else []
        shown = [scalar(item, formats.get(key), key) for item in (inner if isinstance(inner, list) else [inner])]
        parts += [Supplied(visible(readable_name(key)) or '""', bold=True), Say(" "), *join(shown)]
    return tuple(parts)


def _length(spans: Sequence[TextSpan]) -> int:
    return sum(units(spoken(span)) for span in spans)


# -- the headline

LONGEST_TITLE = 100
_IN_TITLE = 60
_FIRST = 3


def in_title(value: JsonValue, kind: str | None, name: str) -> str | None:
    """A value as part of a headline. None for a value that does not belong there."""
    match value:
        case None | dict():
            return None
        case list():
            if not value:
                return None
            if len(value) > _FIRST or any(isinstance(item, dict | list) for item in value):
                return words.counted(len(value), name)
            parts = [in_title(item, kind, name) for item in value]
            named = [part for part in parts if part is not None]
            return ", ".join(named) if len(named) == len(parts) else None
        case str() if len(value) > 10 * _IN_TITLE:
            return None
        case str() if kind is None and not _moment(value):
            text = value.strip()
            sound = text and visible(text) == text and not right_to_left(text) and units(text) <= _IN_TITLE
            # In the thread, the dot is between a headline and our words: "· Approved by ben" may not be a value.
            return text if sound and not _OUR_DOT.search(text) else None
    span = scalar(value, kind, name)
    text = spoken(span)
    return text if units(text) <= _IN_TITLE else None


def readable_name(name: str) -> str:
    """`approved_days` as `approved days`. No two names read the same: one that would read like another's is quoted."""
    if name.isidentifier() and all(name.split("_")):
        return name.replace("_", " ")
    alike = " " in name and name.strip('"').replace(" ", "_").isidentifier()
    return f'"{name}"' if alike else name


def words_of(name: str) -> str:
    """`request_time_off` and `requestTimeOff` as `Request time off`. Any other kind of name stays."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(?:[_.-]+[A-Za-z0-9]+)*_*", name, re.ASCII):
        return name
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", " ", re.sub(r"[_.-]+", " ", name)).strip()
    apart = " ".join(part if part.isupper() else part.lower() for part in apart.split())
    return apart[:1].upper() + apart[1:]


def one_of(plural: str, number: int) -> str:
    """One of a list, by the list's name: `step 2`."""
    return f"{re.sub('(?<=ss|sh|ch)es$|(?<=x)es$|(?<![su])s$', '', re.sub('ies$', 'y', plural))} {number}"
