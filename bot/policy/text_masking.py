"""Finds hidden values in a text and blackens them: as they are, escaped as in JSON, URL-quoted, and in Base64. Pure.

Escapes may be mixed. A value that was escaped or encoded twice is not found.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

MASK = "••••"
SHORTEST = 6
"""Shorter hidden values are not searched for in other texts: "prod" would blacken half the card."""

_LONGEST = 400
"""Of a longer value only the beginning is searched for. Where that occurs, the whole text is hidden."""

_MOST_STEPS, _MOST_PLACES = 10_000_000, 50_000
"""A search that would take more than about half a second is not made. The whole text is hidden instead."""

_SHORT_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}


class HiddenValues:
    """Values that no text may show."""

    def __init__(self, values: Iterable[str]) -> None:
        self.values = frozenset(values)

    def blacken(self, text: str) -> str:
        """The text with hidden values masked."""
        if not self.values or len(text) < SHORTEST:
            return text
        if len(self.values) * len(text) > _MOST_STEPS:
            return MASK
        places: list[tuple[int, int]] = []
        for value in self.values:
            for found in _pattern(value[:_LONGEST]).finditer(text):
                places.append(found.span(1))
                if len(value) > _LONGEST or len(places) > _MOST_PLACES:
                    return MASK
        parts, at = list[str](), 0
        for start, end in sorted(places):
            if start >= at:
                parts += (text[at:start], MASK)
            at = max(at, end)  # places that overlap are one
        return "".join([*parts, text[at:]])


@lru_cache(maxsize=1024)
def _pattern(value: str) -> re.Pattern[str]:
    """Matches wherever the value begins, also inside another match. Group 1 is the value as it is written there."""
    ways = ["".join(map(_letter, value)), *map(re.escape, _in_base64(value))]
    return re.compile(f"(?=({'|'.join(ways)}))")


def _letter(letter: str) -> str:
    """The ways in which a letter is written."""
    data = letter.encode("utf-16-be", "surrogatepass")
    units = (f"\\\\u(?i:{data[at : at + 2].hex()})" for at in range(0, len(data), 2))
    ways = [re.escape(letter), "".join(units)]
    ways.append("".join(f"%(?i:{byte:02x})" for byte in letter.encode("utf-8", "surrogatepass")))
    if letter in _SHORT_ESCAPES:
        ways.append(re.escape("\\" + _SHORT_ESCAPES[letter]))
    if letter == " ":
        ways.append(r"\+")
    return f"(?:{'|'.join(reversed(ways))})"


def _in_base64(value: str) -> Iterator[str]:
    """The value in Base64 at each of the three offsets that it can have in a longer text, such as `user:password`."""
    data = value.encode("utf-8", "surrogatepass")
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode()
        # Leave out the characters that depend on neighbouring bytes.
        inner = encoded[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]
        if len(inner) >= SHORTEST:
            yield from {inner, inner.replace("+", "-").replace("/", "_")}
