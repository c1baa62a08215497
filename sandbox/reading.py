"""JSON, and functions that read it from somebody else. A value of the wrong type reads as empty; nothing raises."""

from __future__ import annotations

from pydantic import JsonValue

Json = JsonValue
JsonObject = dict[str, JsonValue]


def as_object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def objects(value: Json) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def texts(value: Json) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def label(value: Json) -> str:
    """The text of a text object. All labels in Block Kit are text objects."""
    return as_text(as_object(value).get("text"))
