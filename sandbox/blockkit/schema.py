"""Functions that make checks of Slack's limits. A check yields Slack's own error messages, with the place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from adk_confirm.sandbox.reading import Json, JsonObject, as_text

Complaints = Iterator[str]
Check = Callable[[Json, str], Complaints]


def complaint(what: str, place: str) -> str:
    return f"[ERROR] {what} [json-pointer:{place}]"


def string(most: int, least: int = 1) -> Check:
    def check(value: Json, place: str) -> Complaints:
        if not isinstance(value, str):
            yield complaint("must be a string", place)
        elif len(value) > most:
            yield complaint(f"must be less than {most + 1} characters", place)
        elif len(value) < least:
            yield complaint(f"must be more than {least - 1} characters", place)

    return check


def choice(*allowed: str) -> Check:
    def check(value: Json, place: str) -> Complaints:
        if value not in allowed:
            yield complaint(f"value must be one of {', '.join(allowed)}", place)

    return check


def boolean(value: Json, place: str) -> Complaints:
    if not isinstance(value, bool):
        yield complaint("must be a boolean", place)


def whole(least: int, most: int) -> Check:
    def check(value: Json, place: str) -> Complaints:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            yield complaint(f"must be a whole number from {least} to {most}", place)

    return check


def anything(value: Json, place: str) -> Complaints:  # noqa: ARG001 - the shape of a check
    yield from ()


def array(each: Check, most: int, least: int = 1) -> Check:
    def check(value: Json, place: str) -> Complaints:
        if not isinstance(value, list):
            yield complaint("must be an array", place)
            return
        if len(value) > most:
            yield complaint(f"no more than {most} items allowed", place)
        if len(value) < least:
            yield complaint(f"no fewer than {least} items required", place)
        for index, item in enumerate(value):
            yield from each(item, f"{place}/{index}")

    return check


def text(most: int, *kinds: str) -> Check:
    """A text object: `plain_text` unless more kinds are allowed."""
    allowed = kinds or ("plain_text",)

    def check(value: Json, place: str) -> Complaints:
        if not isinstance(value, dict):
            yield complaint("must be an object", place)
            return
        kind = as_text(value.get("type"))
        if kind not in allowed:
            yield complaint(f"unsupported type: {kind or value.get('type')}", f"{place}/type")
        extra: dict[str, Check] = {"emoji": boolean} if kind == "plain_text" else {"verbatim": boolean}
        yield from Shape({"type": anything, "text": string(most)}, extra)(value, place)

    return check


@dataclass(frozen=True)
class Shape:
    """An object: fields it must have, fields it may have, nothing else, and rules across its fields."""

    required: Mapping[str, Check] = field(default_factory=dict)
    optional: Mapping[str, Check] = field(default_factory=dict)
    also: Callable[[JsonObject, str], Complaints] | None = None

    def __call__(self, value: Json, place: str) -> Complaints:
        if not isinstance(value, dict):
            yield complaint("must be an object", place)
            return
        for name in self.required:
            if name not in value:
                yield complaint(f"missing required field: {name}", place)
        for name, inner in value.items():
            check = self.required.get(name) or self.optional.get(name)
            if check is None:
                yield complaint(f"invalid additional property: {name}", place)
            else:
                yield from check(inner, f"{place}/{name}")
        if self.also is not None:
            yield from self.also(value, place)


def kinds(shapes: Mapping[str, Shape], *allowed: str) -> Check:
    """One of several objects, distinguished by `type`."""
    chosen = allowed or tuple(shapes)

    def check(value: Json, place: str) -> Complaints:
        if not isinstance(value, dict):
            yield complaint("must be an object", place)
            return
        kind = value.get("type")
        if not isinstance(kind, str) or kind not in chosen or kind not in shapes:
            yield complaint(f"unsupported type: {kind}", f"{place}/type")
            return
        rest: JsonObject = {name: inner for name, inner in value.items() if name != "type"}
        yield from shapes[kind](rest, place)

    return check
