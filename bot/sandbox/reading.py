"""Reads JSON from somebody else. A value of the wrong type reads as empty; nothing raises."""

from __future__ import annotations

from runtime.jsontypes import Json, objects, texts
from runtime.jsontypes import obj as as_object
from runtime.jsontypes import text as as_text

__all__ = ["as_object", "as_text", "label", "objects", "texts"]


def label(value: Json) -> str:
    """The text of a text object. All labels in Block Kit are text objects."""
    return as_text(as_object(value).get("text"))
