"""Edits: which fields may be changed, how an edit changes the call, and why one is refused; and the form for an answer
to a question. Pure.

The listener calls `check_edit` when a form is submitted, to show an error at its field. Counting calls it again,
because the row may have changed in between.
"""

from __future__ import annotations

from dataclasses import dataclass

from adk_confirm.blocks.json_schema import property_names
from adk_confirm.blocks.shown import ABSENT, PAYLOAD, Absent, FieldDiff
from adk_confirm.bot.confirmation.authorise import Reason, Refusal
from adk_confirm.bot.confirmation.confirmation import Ask, Confirmation, Edit
from adk_confirm.bot.policy.policies import Policies
from adk_confirm.bot.policy.redaction import Redactor
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, same


def differences(before: JsonObject, after: JsonObject) -> tuple[FieldDiff, ...]:
    return tuple(
        FieldDiff(name, before.get(name, ABSENT), after.get(name, ABSENT))
        for name in dict.fromkeys((*before, *after))
        if name not in before or name not in after or not same(before[name], after[name])
    )


@dataclass(frozen=True)
class EditedCall:
    """The call after an edit. If `changes` is empty, the edit repeats the revision and counts as a plain approval."""

    arguments: JsonObject
    payload: Json
    changes: tuple[FieldDiff, ...]


def apply_edit(row: Confirmation, edit: Edit) -> EditedCall:
    """Replaces the named values. All other values stay exactly the same, including the difference between 1, 1.0 and
    true.

    A payload comes from a form with all of the request's fields, so it is replaced as a whole.
    """
    before = row.revision
    old = before.arguments
    edited = {name: value for name, value in edit.arguments.items() if name not in old or not same(old[name], value)}
    arguments, payload = {**old, **edited}, before.payload if edit.payload is None else edit.payload
    if isinstance(before.payload, dict) and isinstance(payload, dict):
        changes = differences(before.payload, payload)
    else:
        changes = differences({PAYLOAD: before.payload}, {PAYLOAD: payload})
    return EditedCall(arguments, payload, (*differences(old, arguments), *changes))


def editable_names(row: Confirmation) -> tuple[str, ...]:
    """The names that a form may offer: of the payload if the request wants one, otherwise of the arguments.

    Left out: names that the policy redacts, except in a question, and those whose value contains something redacted.
    """
    fixed = row.asked.ask in (Ask.NODE, Ask.OPERATION)
    if fixed and not row.asked.wants_payload:
        return ()  # fixed by the workflow or by an operation that has begun, or there are none
    redactor = Redactor(row.policy.redact)
    shown, allowed = _fields(row), row.policy.edit
    named = [*shown, *(name for name in _properties(row) if name not in shown)]
    return tuple(
        name
        for name in named
        if (row.asked.wants_payload or allowed is True or (allowed and name in allowed))
        and (row.asked.question or not redactor.hides(name))
        and not redactor.hides_inside(shown.get(name))
    )


def check_edit(row: Confirmation, edit: Edit, policies: Policies) -> Refusal | None:
    """Why this edit can't be counted, with the names of the fields; `None` if it can."""
    if (row.asked.wants_payload and edit.arguments) or (not row.asked.wants_payload and edit.payload is not None):
        return Refusal(reason=Reason.NOT_EDITABLE, fields=tuple(edit.arguments) or (PAYLOAD,))
    after = apply_edit(row, edit)
    changed = tuple(change.path for change in after.changes)
    may, hides = _editable_names(row, edit), Redactor(row.policy.redact).hides_inside
    locked = tuple(
        change.path
        for change in after.changes
        if change.path not in may or (change.new is not ABSENT and hides(change.new) and not row.asked.question)
    )
    if locked:
        return Refusal(reason=Reason.NOT_EDITABLE, fields=locked)
    repeated = Redactor(row.policy.redact, after.arguments, after.payload).repeats(after.arguments, after.payload)
    if repeated:
        return Refusal(
            reason=Reason.REPEATS_HIDDEN, fields=tuple(name for name in changed if name in repeated) or changed
        )
    odd = tuple(change.path for change in after.changes if not _keeps_kind(row, change))
    if odd:
        return Refusal(reason=Reason.WRONG_KIND, fields=odd)
    if edit.arguments and changed and not policies.same_policy(row.policy, row.asked.facts(after.arguments)):
        return Refusal(reason=Reason.OTHER_POLICY, fields=changed)
    return None


def amendments(row: Confirmation) -> JsonObject | None:
    """The arguments that differ from what the model asked for. Only these are sent with the answer."""
    asked, now = row.asked.arguments, row.revision.arguments
    return {name: value for name, value in now.items() if name not in asked or not same(asked[name], value)} or None


def defaults_left(row: Confirmation) -> frozenset[str]:
    """The arguments that nobody chose: the agent did not give them, and people left them as they were."""
    asked, now = row.asked.arguments, row.revision.arguments
    return frozenset(name for name in row.asked.defaults if name in now and same(asked[name], now[name]))


def _editable_names(row: Confirmation, edit: Edit) -> tuple[str, ...]:
    """The names that this edit may change. A payload that is not an object, or an empty one without a schema, may have
    any form."""
    template = row.revision.payload
    open_form = row.asked.wants_payload and not _properties(row) and not (isinstance(template, dict) and template)
    if not open_form:
        return editable_names(row)
    names = tuple(edit.payload) if isinstance(edit.payload, dict) else ()
    redactor = Redactor(row.policy.redact)
    whole = () if redactor.hides_inside(template) else (PAYLOAD,)
    return (*whole, *(name for name in names if not redactor.hides(name)))


def _fields(row: Confirmation) -> JsonObject:
    """The fields that a form shows."""
    if not row.asked.wants_payload:
        return row.revision.arguments
    return row.revision.payload if isinstance(row.revision.payload, dict) else {}


def _properties(row: Confirmation) -> tuple[str, ...]:
    """The names at the top of the schema that describes the payload, or else the arguments."""
    return property_names(row.asked.payload_schema if row.asked.wants_payload else row.asked.tool_schema)


def _keeps_kind(row: Confirmation, change: FieldDiff) -> bool:
    """Whether the new value is of the old one's kind, so that a number stays a number. The form and the host check what
    a schema describes, with better messages."""
    return change.old in (ABSENT, None) or change.path in _properties(row) or _kind(change.old) == _kind(change.new)


def _kind(value: Json | Absent) -> str:
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else type(value).__name__


# The form for an answer to a question

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
