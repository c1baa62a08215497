"""`redact`: finds values that no output may show, by name and at any depth, and masks them in other texts too.

Pure. Everything that a card, form, file, log line, ledger line or export shows has passed through here.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from bot.policy.text_masking import MASK, SHORTEST, HiddenValues
from runtime.jsontypes import Json, JsonObject, is_deeper

__all__ = ["MASK", "MaskedValue", "Redactor"]

_LONGEST_KNOWN = 200
_DEEPEST = 64
_CLASS = re.compile(r"(\[!?\]?[^]]*\])")
_BETWEEN = str.maketrans(dict.fromkeys("-_"))


class _TooDeep(Exception):
    """A text contains JSON with more levels than are searched."""


@dataclass(frozen=True)
class MaskedValue:
    """What may be shown, and how many values it hides."""

    value: Json
    hidden: int


class Redactor:
    """
    >>> Redactor(["token"]).mask({"url": "https://x/?t=s3cr3t-1", "auth": {"Token": "s3cr3t-1"}})
    MaskedValue(value={'url': 'https://x/?t=••••', 'auth': {'Token': '••••'}}, hidden=2)
    """

    def __init__(self, names: Iterable[str], *known: Json) -> None:
        """`known`: what else the call holds. The hidden values in it are masked wherever they appear."""
        self._names = tuple(map(_pattern, names))
        self._secrets = frozenset(secret for value in known if self._names for secret in self._find(value))

    def hides(self, name: str) -> bool:
        """Names are matched as shell patterns, however they are written: `API-Token` is `api_token`."""
        plain = _comparable(name)
        return any(fnmatchcase(plain, pattern) for pattern in self._names)

    def hides_inside(self, value: Json) -> bool:
        """Whether a value contains something hidden, at any depth."""
        return self.mask(value).hidden > 0

    def mask(self, value: Json) -> MaskedValue:
        if not self._names:
            return MaskedValue(value, 0)
        return self._mask(value, HiddenValues(self._secrets.union(self._find(value))))

    def mask_object(self, value: JsonObject) -> tuple[JsonObject, int]:
        """The same for the arguments of a call. The result is an object too."""
        if not self._names:
            return value, 0
        return self._mask_object(value, HiddenValues(self._secrets.union(self._find(value))))

    def mask_text(self, text: str) -> str:
        """Masks a hint, a reason, a result or an error: the hidden values of `known` and, if the text is JSON, values
        with a hidden name."""
        if not self._names:
            return text
        return self._mask_string(text, HiddenValues(self._secrets.union(self._find(text))))[0]

    def _mask(self, value: Json, secrets: HiddenValues) -> MaskedValue:
        match value:
            case dict():
                return MaskedValue(*self._mask_object(value, secrets))
            case list():
                inner = [self._mask(item, secrets) for item in value]
                return MaskedValue([item.value for item in inner], sum(item.hidden for item in inner))
            case str():
                return MaskedValue(*self._mask_string(value, secrets))
            case bool() | None:
                return MaskedValue(value, 0)
            case int() | float():
                return (
                    MaskedValue(MASK, 1) if not secrets.values.isdisjoint(_numerals(value)) else MaskedValue(value, 0)
                )

    def _mask_string(self, text: str, secrets: HiddenValues) -> tuple[str, int]:
        try:
            inside = _json_in(text)
            found = self._mask(inside, secrets) if inside is not None else None
        except _TooDeep:  # too deep to search
            return MASK, 1
        if found is None or not found.hidden:
            return secrets.blacken(text)
        return json.dumps(found.value, ensure_ascii=False), found.hidden

    def _mask_object(self, value: JsonObject, secrets: HiddenValues) -> tuple[JsonObject, int]:
        shown: JsonObject = {}
        hidden = 0
        for name, item in value.items():
            key = secrets.blacken(name)[0]
            while key in shown:  # two names may differ only in what is hidden: keep both
                key += "·"
            if self.hides(name):
                shown[key], hidden = MASK, hidden + 1
            else:
                inner = self._mask(item, secrets)
                shown[key], hidden = inner.value, hidden + inner.hidden
        return shown, hidden

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
    seen = (letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) not in _UNSEEN)
    return unicodedata.normalize("NFKC", "".join(seen).casefold())


_UNSEEN = {"Cc", "Cf", "Cn", "Co", "Cs", "Mn", "Me", "Zl", "Zp", "Zs"}


def _comparable(name: str) -> str:
    """A name in the form in which names are compared."""
    return _comparable_cached(name) if len(name) <= _LONGEST_KNOWN else _fold(name).translate(_BETWEEN)


@lru_cache(maxsize=4096)
def _comparable_cached(name: str) -> str:
    return _fold(name).translate(_BETWEEN)


def _pattern(name: str) -> str:
    """The same for a pattern. Dashes in brackets stay."""
    parts = _CLASS.split(_fold(name))
    return "".join(part if number % 2 else part.translate(_BETWEEN) for number, part in enumerate(parts))
