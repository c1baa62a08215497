"""Reads Slack's answers. A value of the wrong type reads as nothing, never as an exception."""

from __future__ import annotations

from runtime.jsontypes import Json, JsonObject


def obj(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def objects(value: Json) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def texts(value: Json) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
