"""Checks schemas of forms in a process with limits, because they come from tools or from an agent's server."""

from __future__ import annotations

from pathlib import Path

import blocks.schema
from blocks import words
from blocks.schema import FormSchema
from runtime.bounded.check import BoundedCheck, CheckBroke, TooCostly
from runtime.errors import ConfirmError
from runtime.jsontypes import Json, JsonObject

_CHECKED = BoundedCheck(Path(blocks.schema.__file__))


class UnreadableSchema(ConfirmError):
    """No form can be made from this schema."""

    def __init__(self, why: str) -> None:
        super().__init__(words.FORM_UNREADABLE.format(why=why))


def form_schema(schema: JsonObject | None) -> FormSchema | None:
    """Reads a schema. `shapes` raises `UnreadableSchema`. Both methods block until the process has answered. A value
    that can't be checked counts as wrong."""
    return None if schema is None else FormSchema(schema, _run_check)


def _run_check(root: JsonObject, names: list[str] | None, values: JsonObject | None) -> Json:
    try:
        return _CHECKED(root, None if names is None else [*names], values)
    except (TooCostly, CheckBroke) as error:
        if values is None:
            raise UnreadableSchema(str(error)) from error
        return dict.fromkeys(values, words.FIELD_UNCHECKED)
