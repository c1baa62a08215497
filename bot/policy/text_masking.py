"""Finds hidden values in a text, in any spelling, and blackens them. Pure.

It reads a text as it is, and again without URL quoting and JSON escapes, up to three times over. A hidden value in any
of these readings is blackened in the text. Values in Base64 are found by their encodings at each of the three possible
offsets.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

MASK = "••••"
SHORTEST = 6
"""Shorter hidden values are not searched for in other texts: "prod" would blacken half the card."""

_READINGS = 3
_FEW = 100
"""Up to this many spellings are searched one by one; more are searched all at once."""

_MOST_STEPS, _MOST_PLACES = 3_000_000, 50_000
"""A text can be made so that even that takes long. Then all of it is hidden."""

_ESCAPED = re.compile(r"(?:%[0-9A-Fa-f]{2})+|(?:\\u[0-9A-Fa-f]{4})+|\\[\"\\/bfnrt]")
_SHORT_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

TextRange = tuple[int, int]


class HiddenValues:
    """Values that no text may show."""

    def __init__(self, values: Iterable[str]) -> None:
        self.values = frozenset(values)
        self._spellings = tuple({spelling for value in self.values for spelling in _spellings(value)})

    def blacken(self, text: str) -> str:
        """The text with hidden values masked."""
        if not self._spellings or len(text) < SHORTEST:
            return text
        try:
            places = _merge(self._spans(text))
        except _TooMany:
            return MASK
        if not places:
            return text
        parts, at = list[str](), 0
        for start, end in places:
            parts += (text[at:start], MASK)
            at = end
        return "".join([*parts, text[at:]])

    def _spans(self, text: str) -> list[TextRange]:
        spans: list[TextRange] = []
        for reading in _readings(text):
            for found in _find(reading.text, self._spellings):
                spans.append(reading.span(*found))
                if len(spans) > _MOST_PLACES:
                    raise _TooMany
        return spans


# How a value can be spelled


@lru_cache(maxsize=4096)
def _spellings(secret: str) -> tuple[str, ...]:
    """The spellings of a value that can't be undone by reading the text differently."""
    found = {secret, secret.replace(" ", "+")}
    data = secret.encode("utf-8", "surrogatepass")
    whole = base64.b64encode(data).decode()
    found |= {whole, whole.rstrip("=")}
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode()
        # Leave out the characters that depend on neighbouring bytes.
        found.add(encoded[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6])
    found |= {one.replace("+", "-").replace("/", "_") for one in found - {secret}}
    return tuple(spelling for spelling in found if len(spelling) >= SHORTEST)


# How a text can be read


@dataclass(frozen=True)
class _Reading:
    """A text with some of its escapes decoded. `marks` has, for each part, where it begins here and in the original and
    whether it was an escape, and where the last part ends."""

    text: str
    starts: list[int]
    originals: list[TextRange]

    def span(self, start: int, end: int) -> TextRange:
        """The place in the original text. An escape is never split."""
        return self._span_at(start)[0], self._span_at(end - 1)[1]

    def _span_at(self, index: int) -> TextRange:
        part = bisect_right(self.starts, index) - 1
        start, end = self.originals[part]
        following = self.starts[part + 1] if part + 1 < len(self.starts) else len(self.text)
        if end - start != following - self.starts[part]:
            return start, end
        place = start + index - self.starts[part]
        return place, place + 1


def _readings(text: str) -> Iterator[_Reading]:
    reading = _Reading(text, [0], [(0, len(text))])
    yield reading
    for _ in range(_READINGS):
        further = _unescape(reading)
        if further is None:
            return
        reading = further
        yield reading


def _unescape(reading: _Reading) -> _Reading | None:
    """None if nothing in it is escaped."""
    if "%" not in reading.text and "\\" not in reading.text:
        return None
    parts, starts, originals = list[str](), list[int](), list[TextRange]()
    at, length = 0, 0

    def add(part: str, start: int, end: int) -> None:
        nonlocal length
        for piece, original in _pieces(reading, part, start, end):
            starts.append(length)
            originals.append(original)
            parts.append(piece)
            length += len(piece)
            if len(parts) > _MOST_PLACES:
                raise _TooMany

    for found in _ESCAPED.finditer(reading.text):
        meant = _decode(found.group())
        if found.start() > at:
            add(reading.text[at : found.start()], at, found.start())
        add(meant, found.start(), found.end())
        at = found.end()
    if not parts:
        return None
    if at < len(reading.text):
        add(reading.text[at:], at, len(reading.text))
    return _Reading("".join(parts), starts, originals)


def _pieces(reading: _Reading, part: str, start: int, end: int) -> Iterator[tuple[str, TextRange]]:
    """A part that was not an escape keeps its earlier pieces; an escape is one piece."""
    if len(part) != end - start:
        yield part, reading.span(start, end)
        return
    first = bisect_right(reading.starts, start) - 1
    while start < end:
        following = reading.starts[first + 1] if first + 1 < len(reading.starts) else len(reading.text)
        stop = min(end, following)
        yield part[: stop - start], reading.span(start, stop)
        part, start, first = part[stop - start :], stop, first + 1


def _decode(escape: str) -> str:
    if escape[0] == "%":
        return bytes.fromhex(escape.replace("%", "")).decode("utf-8", "replace")
    if escape[1] == "u":
        halves = b"".join(int(code, 16).to_bytes(2, "big") for code in escape.split("\\u")[1:])
        return halves.decode("utf-16-be", "replace")
    return _SHORT_ESCAPES.get(escape[1], escape[1])


# Where the values are


class _TooMany(Exception):
    pass


def _find(text: str, spellings: Collection[str]) -> Iterator[TextRange]:
    yield from _find_one_by_one(text, spellings) if len(spellings) <= _FEW else _find_all_at_once(text, spellings)


def _find_one_by_one(text: str, spellings: Collection[str]) -> Iterator[TextRange]:
    for spelling in spellings:
        start = text.find(spelling)
        while start >= 0:
            yield start, start + len(spelling)
            start = text.find(spelling, start + 1)


def _find_all_at_once(text: str, spellings: Collection[str]) -> Iterator[TextRange]:
    """Searches for all values at once: by their first characters, then by each possible length."""
    begun: dict[str, dict[int, set[str]]] = {}
    for spelling in spellings:
        begun.setdefault(spelling[:SHORTEST], {}).setdefault(len(spelling), set()).add(spelling)
    steps = len(text)
    for start in range(len(text) - SHORTEST + 1):
        for length, those in begun.get(text[start : start + SHORTEST], {}).items():
            steps += 1 + length // 16
            if steps > _MOST_STEPS:
                raise _TooMany
            if text[start : start + length] in those:
                yield start, start + length


def _merge(spans: list[TextRange]) -> list[TextRange]:
    """Joins overlapping places, so that no part of either is left."""
    joined: list[TextRange] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined
