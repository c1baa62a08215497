"""Edits: which fields may be changed, how an edit changes the call, and why one is refused. Pure.

The listener calls `check_edit` when a form is submitted, to show an error at its field. Counting calls it again,
because the row may have changed in between.
"""

from __future__ import annotations

from dataclasses import dataclass

from adk_confirm.blocks.schema import property_names
from adk_confirm.bot.confirmation.authorise import Reason, Refusal
from adk_confirm.bot.confirmation.effects import FieldChange
from adk_confirm.bot.confirmation.model import Ask, Confirmation, Edit
from adk_confirm.bot.policy.model import Policies
from adk_confirm.bot.policy.redaction import Redactor
from adk_confirm.runtime.jsontypes import Json, JsonObject, canonical


@dataclass(frozen=True)
class EditedCall:
    """The call after an edit. If `changes` is empty, the edit repeats the revision and counts as a plain approval."""

    arguments: JsonObject
    payload: Json
    changes: tuple[FieldChange, ...]


def apply_edit(row: Confirmation, edit: Edit) -> EditedCall:
    """Replaces the named values. All other values stay exactly the same, including the difference between 1, 1.0 and
    true.

    A payload comes from a form with all of the request's fields, so it is replaced as a whole.
    """
    before = row.revision
    arguments = {**before.arguments}
    for name, value in edit.arguments.items():
        if name not in arguments or not _are_equal(arguments[name], value):
            arguments[name] = value
    payload = before.payload if edit.payload is None else edit.payload
    return EditedCall(
        arguments=arguments,
        payload=payload,
        changes=(*_changes(before.arguments, arguments), *_payload_changes(before.payload, payload)),
    )


def editable_names(row: Confirmation) -> tuple[str, ...]:
    """The names that a form may offer: of the payload if the request wants one, otherwise of the arguments.

    Names that the policy redacts are left out, and values that contain something redacted, since a form can't show
    them.
    """
    fixed = row.asked.ask in (Ask.NODE, Ask.OPERATION)
    if fixed and not row.asked.wants_payload:
        return ()  # fixed by the workflow or by an operation that has begun, or there are none
    redactor = Redactor(row.policy.redact)
    shown = _fields(row)
    named = [*shown, *(name for name in _properties(row) if name not in shown)]
    return tuple(
        name
        for name in named
        if (row.asked.wants_payload or _allows(row.policy.edit, name))
        and (row.asked.question or not redactor.hides(name))
        and not redactor.hides_inside(shown.get(name))
    )


def check_edit(row: Confirmation, edit: Edit, policies: Policies) -> Refusal | None:
    """Why this edit can't be counted, with the names of the fields; `None` if it can."""
    if (row.asked.wants_payload and edit.arguments) or (not row.asked.wants_payload and edit.payload is not None):
        return Refusal(reason=Reason.NOT_EDITABLE, fields=tuple(edit.arguments) or ("payload",))
    after = apply_edit(row, edit)
    changed = tuple(change.name for change in after.changes)
    may, hides = _editable_names(row, edit), Redactor(row.policy.redact).hides_inside
    locked = tuple(
        change.name
        for change in after.changes
        if change.name not in may or (hides(change.after) and not row.asked.question)
    )
    if locked:
        return Refusal(reason=Reason.NOT_EDITABLE, fields=locked)
    repeated = Redactor(row.policy.redact, after.arguments, after.payload).repeats(after.arguments, after.payload)
    if repeated:
        return Refusal(
            reason=Reason.REPEATS_HIDDEN, fields=tuple(name for name in changed if name in repeated) or changed
        )
    odd = tuple(change.name for change in after.changes if not _keeps_kind(row, change))
    if odd:
        return Refusal(reason=Reason.WRONG_KIND, fields=odd)
    same = policies.same_policy(row.asked.facts(row.revision.arguments), row.asked.facts(after.arguments))
    if edit.arguments and changed and not same:
        return Refusal(reason=Reason.OTHER_POLICY, fields=changed)
    return None


def amendments(row: Confirmation) -> JsonObject | None:
    """The arguments that differ from what the model asked for. Only these are sent with the answer."""
    return changed_arguments(row.asked.arguments, row.revision.arguments)


def defaults_left(row: Confirmation) -> frozenset[str]:
    """The arguments that nobody chose: the agent did not give them, and people left them as they were."""
    asked, now = row.asked.arguments, row.revision.arguments
    return frozenset(name for name in row.asked.defaults if name in now and _are_equal(asked[name], now[name]))


def changed_arguments(asked: JsonObject, now: JsonObject) -> JsonObject | None:
    changed = {name: value for name, value in now.items() if name not in asked or not _are_equal(asked[name], value)}
    return changed or None


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


PAYLOAD = "payload"
"""The name under which a payload without fields is edited."""


def _allows(edit: bool | tuple[str, ...], name: str) -> bool:
    return edit if isinstance(edit, bool) else name in edit


def _fields(row: Confirmation) -> JsonObject:
    """The fields that a form shows."""
    if not row.asked.wants_payload:
        return row.revision.arguments
    return row.revision.payload if isinstance(row.revision.payload, dict) else {}


def _properties(row: Confirmation) -> tuple[str, ...]:
    """The names in the schema for which the call has no value."""
    return property_names(row.asked.payload_schema if row.asked.wants_payload else row.asked.tool_schema)


def _keeps_kind(row: Confirmation, change: FieldChange) -> bool:
    """Whether a number stays a number. What the schema describes is checked by the form and the host, which have better
    messages."""
    if change.added or change.before is None or change.name in _properties(row):
        return True
    return _kind(change.before) == _kind(change.after)


def _kind(value: Json) -> str:
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else type(value).__name__


def _are_equal(one: Json, other: Json) -> bool:
    return canonical(one) == canonical(other)


def _changes(before: JsonObject, after: JsonObject) -> tuple[FieldChange, ...]:
    names = (*before, *(name for name in after if name not in before))
    return tuple(
        FieldChange(name, before.get(name), after.get(name), added=name not in before)
        for name in names
        if name not in before or name not in after or not _are_equal(before[name], after[name])
    )


def _payload_changes(before: Json, after: Json) -> tuple[FieldChange, ...]:
    if isinstance(before, dict) and isinstance(after, dict):
        return _changes(before, after)
    return () if _are_equal(before, after) else (FieldChange(PAYLOAD, before, after),)
