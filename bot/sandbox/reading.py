"""Reads JSON from somebody else. A value of the wrong type reads as empty; nothing raises."""

from __future__ import annotations

from runtime.jsontypes import Json, as_object, as_text


def label(value: Json) -> str:
    """The text of a text object. All labels in Block Kit are text objects."""
    return as_text(as_object(value).get("text"))
