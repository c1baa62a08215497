"""`redact`: values that no output may show, found by name at any depth, and where they turn up again in other texts.

Pure. A card, a form, a file, a log line, the ledger, an export: each shows what came out of here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from runtime.jsontypes import Json, JsonObject, canonical

MASK = "••••"
_SHORTEST_SECRET = 6
"""A hidden value shorter than this is not searched for in other texts: "prod" would blacken half the card."""


@dataclass(frozen=True)
class Masked:
    """What may be shown, and how many values it hides."""

    value: Json
    hidden: int


class Redactor:
    """
    >>> Redactor(["token"]).mask({"url": "https://x/?t=s3cr3t-1", "auth": {"Token": "s3cr3t-1"}})
    Masked(value={'url': 'https://x/?t=••••', 'auth': {'Token': '••••'}}, hidden=2)
    """

    def __init__(self, names: Iterable[str], *known: Json) -> None:
        """`known`: what else the call holds; the hidden values in it are masked wherever they turn up."""
        self._names = tuple(name.casefold() for name in names)
        self._secrets = frozenset(secret for value in known if self._names for secret in self._find(value))

    def hides(self, name: str) -> bool:
        """Names are matched as shell patterns, whatever their case."""
        return any(fnmatchcase(name.casefold(), pattern) for pattern in self._names)

    def hides_inside(self, value: Json) -> bool:
        """Whether a value holds something hidden, however deep."""
        return self.mask(value).hidden > 0

    def mask(self, value: Json) -> Masked:
        if not self._names:
            return Masked(value, 0)
        return self._mask(value, self._longest_first(self._secrets | frozenset(self._find(value))))

    def mask_object(self, value: JsonObject) -> tuple[JsonObject, int]:
        """The same for the arguments of a call, which stay an object."""
        secrets = self._longest_first(self._secrets | frozenset(self._find(value)))
        return self._mask_object(value, secrets) if self._names else (value, 0)

    def mask_text(self, text: str) -> str:
        """A hint, a reason, a result, an error: the hidden values of the `known` are blackened in it, and if it is
        JSON, what has a hidden name there."""
        if not self._names:
            return text
        return self._mask_string(text, self._longest_first(self._secrets | frozenset(self._find(text))))[0]

    def _mask(self, value: Json, secrets: tuple[str, ...]) -> Masked:
        match value:
            case dict():
                return Masked(*self._mask_object(value, secrets))
            case list():
                inner = [self._mask(item, secrets) for item in value]
                return Masked([item.value for item in inner], sum(item.hidden for item in inner))
            case str():
                return Masked(*self._mask_string(value, secrets))
            case _:
                return Masked(value, 0)

    def _mask_string(self, text: str, secrets: tuple[str, ...]) -> tuple[str, int]:
        try:
            inside = _inside(text)
            found = self._mask(inside, secrets) if inside is not None else None
        except RecursionError:  # nobody can look into it
            return MASK, 1
        if found is None or not found.hidden:
            return _blacken(text, secrets)
        return json.dumps(found.value, ensure_ascii=False), found.hidden

    def _mask_object(self, value: JsonObject, secrets: tuple[str, ...]) -> tuple[JsonObject, int]:
        shown: JsonObject = {}
        hidden = 0
        for name, item in value.items():
            key = _blacken(name, secrets)[0]
            while key in shown:  # two names that differ only in what is hidden: neither may vanish
                key += "·"
            if self.hides(name):
                shown[key], hidden = MASK, hidden + 1
            else:
                inner = self._mask(item, secrets)
                shown[key], hidden = inner.value, hidden + inner.hidden
        return shown, hidden

    def _find(self, value: Json) -> Iterator[str]:
        """The hidden values, as the texts in which they would turn up elsewhere."""
        match value:
            case dict():
                for name, item in value.items():
                    yield from _texts(item) if self.hides(name) else self._find(item)
            case list():
                for item in value:
                    yield from self._find(item)
            case str():
                try:
                    yield from tuple(self._find(_inside(value)))
                except RecursionError:
                    return  # `_mask_string` hides the whole of it
            case _:
                return

    @staticmethod
    def _longest_first(secrets: frozenset[str]) -> tuple[str, ...]:
        """So that no secret is cut open by a shorter one inside it."""
        return tuple(sorted(secrets, key=lambda secret: (-len(secret), secret)))


def _inside(text: str) -> Json:
    """What a text holds that is an object or a list spelled out; else nothing."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        inside: Json = json.loads(text)
    except ValueError:
        return None
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
            if len(secret := value.strip()) >= _SHORTEST_SECRET:
                yield from {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
        case int() | float():
            if len(spelled := canonical(value)) >= _SHORTEST_SECRET:
                yield spelled


def _blacken(text: str, secrets: tuple[str, ...]) -> tuple[str, int]:
    hidden = 0
    for secret in secrets:
        hidden += text.count(secret)
        text = text.replace(secret, MASK)
    return text, hidden
