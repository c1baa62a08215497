"""`redact`: finds values that no output may show, by name and at any depth, and masks them in other texts too.

Everything that a card, form, file, log line, ledger line or export shows has passed through here. Two rules:

- In a *call*, only what has a hidden name is masked (`mask_call`). A mask anywhere else could hide from the approvers
  what runs. So a call that holds a hidden value outside of a hidden name is not shown at all (`repeats`).
- In what is *said* about a call, such as a result or a reason, a hidden value is masked wherever it occurs (`mask`,
  `mask_text`).
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NewType

from adk_confirm.blocks.shown import PAYLOAD
from adk_confirm.runtime.jsontypes import Json, JsonObject, is_deeper

MASK = "••••"
SHORTEST = 6
"""Shorter hidden values are not searched for in other texts: "prod" would blacken half the card."""

_LONGEST = 100
"""Of a longer value only the beginning is searched for. Where that occurs, the whole text is hidden."""

_MOST_STEPS, _TO_KNOW, _TO_LOOK, _TO_COMPILE, _MOST_PLACES = 20_000_000, 2000, 100, 4000, 50_000
"""One search takes about a second at most, however many texts it has. What it has not searched by then is hidden."""

_WINDOW, _LONGEST_SPELLING = 10_000, 12 * _LONGEST
"""The search pauses after so many letters, since other threads wait for it. A letter is spelled with at most 12."""

_ESCAPED = re.compile(r"%[0-9A-Fa-f]{2}|\\[u\"\\/bfnrt]")

_SHORT_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}


class _Search:
    """Masks one set of hidden values in several texts, within one budget of steps."""

    def __init__(self, secrets: frozenset[str]) -> None:
        self.secrets = secrets
        self._left = _MOST_STEPS - len(secrets) * _TO_KNOW
        self._compiled = set[str]()

    def blacken(self, text: str) -> str:
        """The text with hidden values masked."""
        if not self.secrets or len(text) < SHORTEST:
            return text
        places: list[tuple[int, int]] = []
        escaped = _ESCAPED.search(text) is not None
        for value in self.secrets:
            for place in self._places(value[:_LONGEST], text, escaped):
                places.append(place)
                if len(value) > _LONGEST or len(places) > _MOST_PLACES:
                    return MASK
            if self._left < 0:
                return MASK
        parts, at = list[str](), 0
        for start, end in sorted(places):
            if start >= at:
                parts += (text[at:start], MASK)
            at = max(at, end)  # places that overlap are one
        return "".join([*parts, text[at:]])

    def _places(self, value: str, text: str, escaped: bool) -> Iterator[tuple[int, int]]:
        """Where the value stands in the text. Ends early when no steps are left."""
        self._left -= len(text) + _TO_LOOK
        spelled = escaped or (" " in value and "+" in text)
        if self._left < 0 or not (spelled or any(way in text for way in _unescaped(value))):
            return
        self._left -= len(value) * (len(text) + (0 if value in self._compiled else _TO_COMPILE))
        if self._left < 0:
            return
        self._compiled.add(value)
        for start in range(0, len(text), _WINDOW):
            for found in _pattern(value).finditer(text, start, start + _WINDOW + _LONGEST_SPELLING):
                if found.start() < start + _WINDOW:
                    yield found.span(1)


@lru_cache(maxsize=1024)
def _pattern(value: str) -> re.Pattern[str]:
    """Matches wherever the value begins, also inside another match. Group 1 is the value as it is written there."""
    ways = ["".join(map(_letter, value)), *map(re.escape, _unescaped(value)[1:])]
    return re.compile(f"(?=({'|'.join(ways)}))")


@lru_cache(maxsize=1024)
def _unescaped(value: str) -> tuple[str, ...]:
    """The value as it is, and in Base64 at each of the three offsets that it can have in a longer text, such as
    `user:password`."""
    data, ways = value.encode("utf-8", "surrogatepass"), [value]
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode()
        # Only the characters that stand for bytes of the value alone: at both ends, one may mix in bits of a neighbour.
        inner = encoded[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]
        if len(inner) >= SHORTEST:
            ways += {inner, inner.replace("+", "-").replace("/", "_")}
    return tuple(ways)


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


__all__ = ["MASK", "MaskedObject", "MaskedText", "Redactor", "mask_said", "own_words"]

MaskedText = NewType("MaskedText", str)
MaskedObject = NewType("MaskedObject", JsonObject)
"""A text and an object that may be shown. Only this module makes them."""

_DEEPEST = 64
_CLASS = re.compile(r"(\[!?\]?[^]]*\])")
_BETWEEN = str.maketrans(dict.fromkeys("-_"))


class _TooDeep(Exception):
    """A text contains JSON with more levels than are searched."""


def is_hidden(masked: Json) -> bool:
    """Whether nothing of a value is left to see.

    >>> is_hidden({"token": MASK, "more": [MASK]}), is_hidden({"token": MASK, "table": "users"}), is_hidden({})
    (True, False, False)
    """
    match masked:
        case dict() | list():
            inside = masked.values() if isinstance(masked, dict) else masked
            return bool(masked) and all(map(is_hidden, inside))
        case str():
            return (not masked.replace(MASK, "").strip() and MASK in masked) or is_hidden(_json_in(masked))
    return False


def own_words(text: str) -> MaskedText:
    """A text of this program or of an operator. It quotes nothing of a call."""
    return MaskedText(text)


async def mask_said(redactors: Iterable[Redactor], *texts: str) -> tuple[MaskedText, ...]:
    """Masks, in an agent's words, what the policies of all these calls hide, as one search within one budget. A thread
    does that, and makes the redactors if they come from an iterator: an agent chooses how much is read."""

    def mask() -> tuple[MaskedText, ...]:
        shown = Redactor.union(redactors).mask(list(texts))
        assert isinstance(shown, list)
        return tuple(MaskedText(str(text)) for text in shown)

    return await asyncio.to_thread(mask)


class Redactor:
    """
    >>> redactor = Redactor(["token"], {"url": "https://x/?t=s3cr3t-1", "auth": {"Token": "s3cr3t-1"}})
    >>> redactor.mask_call({"url": "https://x/", "auth": {"Token": "s3cr3t-1"}})
    ({'url': 'https://x/', 'auth': {'Token': '••••'}}, 1)
    >>> redactor.repeats({"url": "https://x/?t=s3cr3t-1", "auth": {"Token": "s3cr3t-1"}})
    ('url',)
    >>> redactor.mask_text("no such token: s3cr3t-1")
    'no such token: ••••'
    """

    def __init__(self, names: Iterable[str], *known: Json) -> None:
        """`known`: what else the call holds. The hidden values in it are masked wherever they appear."""
        self._names = tuple(map(_name_pattern, names))
        self._secrets = frozenset(secret for value in known if self._names for secret in self._find(value))

    @classmethod
    def union(cls, parts: Iterable[Redactor]) -> Redactor:
        """Hides what any of these hides."""
        whole, every = cls(()), [one for one in parts if one._names]
        whole._names = tuple(dict.fromkeys(name for one in every for name in one._names))
        whole._secrets = frozenset[str]().union(*(one._secrets for one in every))
        return whole

    def hides(self, name: str) -> bool:
        """Names are matched as shell patterns, however they are written: `API-Token` is `api_token`."""
        if not self._names:
            return False
        plain = _fold(name).translate(_BETWEEN)
        return any(fnmatchcase(plain, pattern) for pattern in self._names)

    def hides_inside(self, value: Json) -> bool:
        """Whether a value contains a hidden name, at any depth."""
        return self._mask_names(value)[1] > 0

    def mask_call(self, values: JsonObject) -> tuple[MaskedObject, int]:
        """The arguments of a call, its payload, or some of them, without the values of hidden names; and how many these
        are."""
        shown, hidden = self._mask_names(values)
        assert isinstance(shown, dict)
        return MaskedObject(shown), hidden

    def repeats(self, *values: Json) -> tuple[MaskedText, ...]:
        """The arguments (or fields of a payload) in which a hidden value stands under a name that is not hidden, or
        whose own name contains one. Also those with a hidden name inside a text of JSON, since a tool may read that
        text as something else."""
        if not self._names:
            return ()
        named = [self._mask_names(value if isinstance(value, dict) else {PAYLOAD: value})[0] for value in values]
        parts = [(name, {name: item}) for one in named if isinstance(one, dict) for name, item in one.items()]
        search = self._search(*named)
        masked = (self._mask_string(name, search) for name, part in parts if self._mask(part, search) != part)
        return tuple(dict.fromkeys(map(MaskedText, masked)))

    def mask(self, value: Json) -> Json:
        return self._mask(value, self._search(value)) if self._names else value

    def mask_text(self, text: str) -> MaskedText:
        """Masks a hint, a reason, a result or an error: the hidden values of `known` and, if the text is JSON, values
        with a hidden name."""
        shown = self.mask(text)
        assert isinstance(shown, str)
        return MaskedText(shown)

    def _mask_names(self, value: Json) -> tuple[Json, int]:
        hidden = 0

        def mask(inner: Json) -> Json:
            nonlocal hidden
            match inner:
                case list():
                    return [mask(one) for one in inner]
                case dict():
                    names = {name for name in inner if self.hides(name)}
                    hidden += len(names)
                    return {name: MASK if name in names else mask(one) for name, one in inner.items()}
            return inner

        return (mask(value) if self._names else value), hidden

    def _search(self, *values: Json) -> _Search:
        return _Search(self._secrets.union(secret for value in values for secret in self._find(value)))

    def _mask(self, value: Json, search: _Search) -> Json:
        match value:
            case dict():
                shown: JsonObject = {}
                for name, item in value.items():
                    key = search.blacken(name)
                    while key in shown:  # two names may differ only in what is hidden: keep both
                        key += f"·{len(shown)}"
                    shown[key] = MASK if self.hides(name) else self._mask(item, search)
                return shown
            case list():
                return [self._mask(item, search) for item in value]
            case str():
                return self._mask_string(value, search)
            case bool() | None:
                return value
            case int() | float():
                return value if search.secrets.isdisjoint(_numerals(value)) else MASK

    def _mask_string(self, text: str, search: _Search) -> str:
        try:
            inside = _json_in(text)
            shown = self._mask(inside, search)
        except _TooDeep:  # too deep to search
            return MASK
        return search.blacken(text) if shown == inside else json.dumps(shown, ensure_ascii=False)

    def _find(self, value: Json) -> Iterator[str]:
        """Collects the hidden values as texts that could appear elsewhere."""
        match value:
            case dict():
                for name, item in value.items():
                    yield from _texts(item) if self.hides(name) else self._find(item)
            case list():
                for item in value:
                    yield from self._find(item)
            case str():
                try:
                    yield from tuple(self._find(_json_in(value)))
                except _TooDeep:
                    return  # `_mask_string` hides all of it
            case _:
                return


def _json_in(text: str) -> Json:
    """The object or list that a text contains as JSON, or None. Raises `_TooDeep`."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        inside: Json = json.loads(text)
    except ValueError:
        return None
    except RecursionError as error:
        raise _TooDeep from error
    if is_deeper(inside, _DEEPEST):
        raise _TooDeep
    return inside


def _texts(value: Json) -> Iterator[str]:
    match value:
        case dict():
            for item in value.values():
                yield from _texts(item)
        case list():
            for item in value:
                yield from _texts(item)
        case bool() | None:
            return
        case str():
            if len(secret := value.strip()) >= SHORTEST:
                yield secret
            try:
                yield from tuple(_texts(_json_in(value)))
            except _TooDeep:
                return  # the whole text is already one of the values
        case int() | float():
            if abs(value) >= _LARGEST or len(repr(value)) >= SHORTEST:
                yield from _numerals(value)


def _numerals(value: int | float) -> set[str]:
    """A number as other programs may write it: 1234567 as 1234567.0."""
    if isinstance(value, float) and not value.is_integer():
        return {repr(value)}
    if abs(value) >= _LARGEST:
        return set()
    return {f"{int(value)}", f"{int(value)}.0"}


_LARGEST = 10**100
"""Larger numbers are hidden by name only: Python does not write numbers of thousands of digits."""


def _fold(name: str) -> str:
    """The text without case, width, spaces and invisible characters."""
    if name.isascii():  # quick for the thousands of names that an agent may give
        return name.translate(_UNSEEN_ASCII).lower()
    seen = (letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) not in _UNSEEN)
    return unicodedata.normalize("NFKC", "".join(seen).casefold())


_UNSEEN = {"Cc", "Cf", "Cn", "Co", "Cs", "Mn", "Me", "Zl", "Zp", "Zs"}
_UNSEEN_ASCII = dict.fromkeys(code for code in range(128) if unicodedata.category(chr(code)) in _UNSEEN)


def _name_pattern(name: str) -> str:
    """Makes a pattern comparable like a name. A dash inside brackets is a range, so it stays."""
    parts = _CLASS.split(_fold(name))
    return "".join(part if number % 2 else part.translate(_BETWEEN) for number, part in enumerate(parts))
