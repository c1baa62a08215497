"""The form for an answer to a question: one input for each field of its schema, or one for the whole answer. Pure."""

from __future__ import annotations

from adk_confirm.blocks.shown import PAYLOAD
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object

WHOLE = "the whole answer"
"""The comment in the schema of a form whose one field is the whole answer."""


def form_of(schema: JsonObject | None) -> tuple[JsonObject, JsonObject]:
    """The schema of the form to fill in, and its first values: one input for each field, or one for the whole answer.

    The first values are the fields' defaults, because google-adk gives its node a null for a field that is left out.
    """
    if has_fields(schema):
        properties = as_object((schema or {}).get("properties"))
        defaults: JsonObject = {
            name: rules["default"]
            for name, rules in properties.items()
            if isinstance(rules, dict) and "default" in rules
        }
        return schema or {}, defaults
    shared = {name: part for name, part in (schema or {}).items() if name in ("$defs", "definitions")}
    whole: JsonObject = {name: part for name, part in (schema or {}).items() if name not in shared}
    form: JsonObject = {"$comment": WHOLE, "type": "object", "properties": {PAYLOAD: whole or {"type": "string"}}}
    return {**form, "required": [PAYLOAD], **shared}, {}


def has_fields(schema: JsonObject | None) -> bool:
    return bool(as_object((schema or {}).get("properties")))


def answer_from_form(form: JsonObject | None, payload: Json) -> Json:
    """The answer, from what was filled into a form of this schema (`form_of`)."""
    filled = as_object(payload)
    return filled.get(PAYLOAD) if form is not None and form.get("$comment") == WHOLE else filled
