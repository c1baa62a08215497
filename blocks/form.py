"""Forms: turns a view into a modal, and what is submitted into typed changes or errors at the fields.

A reader gets the same view that the form was drawn from (the row's, at the revision in the private metadata). So it has
the same fields, and only what differs from their values is a change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from blocks import words
from blocks.card_text import calls_like, confirm_withdraw, heading
from blocks.content import WHOLE, content
from blocks.fields import ACTION, entry_in, text_in
from blocks.fieldset import Fieldset, FieldsRead, fieldset
from blocks.full_view import cut_note, room_beside, split_pages, what_runs
from blocks.ids import Callback, Ref
from blocks.kit import JsonObject, header, input_block, modal, option, plain_text, small_print
from blocks.rich import Line, Piece, Say, join_list, line, name, part, rich
from blocks.schema import FormSchema, Schema
from bot.confirmation.shown import PAYLOAD, GrantOffer, Shown, payload_fields

REASON, GRANT = "reason", "grant"
REASON_LENGTH = 1000


# -- Edit…


def _consequence(view: Shown) -> JsonObject:
    """What submitting the edit does."""
    return rich([_intro(words.EDIT_INTRO_DENIES if view.edit_denies else words.EDIT_INTRO, view)], "consequence")


def edit_fields(view: Shown, schema: FormSchema | None) -> Fieldset:
    return fieldset(view.arguments, view.editable, schema, Ref(view.id, view.revision))


def edit_form(view: Shown, schema: FormSchema | None) -> JsonObject:
    """What Edit… opens: editable values as fields, the rest as text. Submitting it is a vote for the edited call."""
    fields = edit_fields(view, schema)
    inputs = [one.block() for one in fields.fields]
    intro = content(view.but(arguments=()), WHOLE).intro
    above = split_pages(intro, "intro", *room_beside(inputs))
    below = split_pages(_fixed_content(view, fields), "page", *above.left)
    if not (above.whole and below.whole):
        blocks = [_heading(view), rich([line(words.NO_ROOM_TO_EDIT)], "no_room")]
        return _modal(Callback.EDIT, words.TITLE_EDIT, blocks, view, None)
    blocks = [_heading(view), *above.blocks, _consequence(view), *inputs, *below.blocks]
    blocks += small_print(_fixed_notes(fields), "fixed")
    return _modal(Callback.EDIT, words.TITLE_EDIT, blocks, view, words.SUBMIT_EDIT if inputs else None)


def read_edit(view: Shown, schema: FormSchema | None, values: Mapping[str, object]) -> FieldsRead:
    """The changed arguments by name. A form without changes is sent back, since it is not an edit."""
    fields = edit_fields(view, schema)
    reading = fields.read(values)
    if not reading.errors and not reading.changes and fields.fields:
        return FieldsRead({}, {fields.fields[0].block_id: words.NOTHING_CHANGED})
    return reading


def _fixed_notes(fields: Fieldset) -> list[Line]:
    names = join_list([name(one) for one in fields.long[:10]])
    long = [line(words.TOO_LONG_TO_EDIT, names=names)] if names else []
    return [*long, *([line(words.TOO_MANY_FIELDS)] if fields.crowded else [])]


# -- Approve


@dataclass(frozen=True, slots=True)
class Approval:
    """A submitted Approve form: the payload's changed fields, and whether similar calls are allowed next."""

    changes: dict[str, JsonValue] = field(default_factory=dict)
    grant: bool = False
    errors: dict[str, str] = field(default_factory=dict)


def payload_with(payload: JsonValue, schema: Schema | None, changes: Mapping[str, JsonValue]) -> JsonValue:
    """The payload with a form's changes. Everything else keeps its exact value."""
    if isinstance(payload, dict) and payload_fields(payload, schema) is payload:
        return {**payload, **changes}
    return changes.get(PAYLOAD, payload)


def approve_fields(view: Shown, schema: FormSchema | None) -> Fieldset:
    if not view.wants_payload:
        return Fieldset((), (), (), crowded=False)
    whole = (PAYLOAD,) if [argument.name for argument in view.payload] == [PAYLOAD] else ()
    return fieldset(view.payload, (*view.editable, *whole), schema, Ref(view.id, view.revision))


def approve_form(view: Shown, payload_schema: FormSchema | None = None) -> JsonObject:
    """What Approve opens if a click is not enough: everything that would run, and what the approver must add."""
    fields = approve_fields(view, payload_schema)
    inputs = [one.block() for one in fields.fields]
    parts = [*what_runs(view.but(answered=False)), *_fixed_content(view, fields)]
    pages = split_pages(parts, "page", *room_beside(inputs))
    blocks = [_heading(view), *pages.blocks, *cut_note(pages)]
    if pages.whole:
        blocks += _payload_blocks(view, fields, inputs)
        blocks += _grant_blocks(view, view.grant_offer) if view.grant_offer is not None else []
    title, submit = (words.TITLE_ANSWER, words.SUBMIT_ANSWER) if view.question else (words.TITLE_APPROVE, words.APPROVE)
    return _modal(Callback.APPROVE, title, blocks, view, submit if pages.whole else None)


def read_approval(view: Shown, payload_schema: FormSchema | None, values: Mapping[str, object]) -> Approval:
    reading = approve_fields(view, payload_schema).read(values)
    if reading.errors:
        return Approval(errors=reading.errors)
    return Approval(reading.changes, grant=view.grant_offer is not None and GRANT in ticked_values(values, GRANT))


def _payload_blocks(view: Shown, fields: Fieldset, inputs: Sequence[JsonObject]) -> list[JsonObject]:
    intro = bool(inputs) and not view.question
    blocks: list[JsonObject] = [rich([_intro(words.PAYLOAD_INTRO, view)], "intro")] if intro else []
    return [*blocks, *inputs, *small_print(_fixed_notes(fields), "fixed")]


def _grant_blocks(view: Shown, offer: GrantOffer) -> list[JsonObject]:
    calls, uses = calls_like(view.tool, offer.on), words.uses(offer.uses)
    scope = line(words.GRANT_SCOPE, calls=calls, duration=words.duration(offer.seconds), uses=uses)
    box = part("checkboxes", action_id=ACTION, options=[option(GRANT, words.GRANT_OPTION)])
    offered = input_block(plain_text(words.GRANT_LABEL), box, GRANT, optional=True)
    return [offered, *small_print([scope], "grant_scope")]


# -- Deny


@dataclass(frozen=True, slots=True)
class Denial:
    reason: str | None = None
    errors: dict[str, str] = field(default_factory=dict)


def deny_form(view: Shown, *, required: bool) -> JsonObject:
    """What Deny opens. Slack draws its submit button green, and an app can't change that."""
    blocks = [_heading(view), reason_input(required=required)]
    return _modal(Callback.DENY, words.TITLE_DENY, blocks, view, words.DENY)


def reason_input(*, required: bool) -> JsonObject:
    entry = part("plain_text_input", action_id=ACTION, multiline=True, max_length=REASON_LENGTH, focus_on_load=True)
    return input_block(plain_text(words.REASON), entry, REASON, optional=not required, hint=words.REASON_HINT)


def read_denial(values: Mapping[str, object], *, required: bool) -> Denial:
    reason = text_in(values, REASON)
    if len(reason) > REASON_LENGTH:
        return Denial(errors={REASON: words.REASON_LONG.format(limit=REASON_LENGTH)})
    if required and not reason:
        return Denial(errors={REASON: words.REASON_REQUIRED})
    return Denial(reason or None)


# -- Withdraw


def withdraw_form(view: Shown) -> JsonObject:
    """What Withdraw… in a card's menu opens: a menu entry can't ask "are you sure?"."""
    _, consequence = confirm_withdraw(view)
    blocks = [_heading(view), rich([line(consequence)], "consequence")]
    return _modal(Callback.WITHDRAW, words.TITLE_WITHDRAW, blocks, view, words.WITHDRAW)


# -- shared parts


def _heading(view: Shown) -> JsonObject:
    return header(heading(view), "title")


def _intro(template: str, view: Shown) -> Line:
    return line(template, tool=name(view.tool))


def _fixed_content(view: Shown, fields: Fieldset) -> list[Piece]:
    if not fields.fixed:
        return []
    shown = content(view.but(arguments=fields.fixed, diff=(), answered=False), WHOLE)
    return [Line((Say(words.STAYS, bold=True),)), *shown.arguments]


def _modal(callback: Callback, title: str, blocks: list[JsonObject], view: Shown, submit: str | None) -> JsonObject:
    metadata = Ref(view.id, view.revision).encode()
    close = words.CANCEL if submit else words.CLOSE
    return modal(callback, title, blocks, metadata=metadata, submit=submit, close=close)


def ticked_values(values: Mapping[str, object], block_id: str) -> set[str]:
    """The values of the boxes that are ticked in a block."""
    options = entry_in(values, block_id).get("selected_options")
    found = options if isinstance(options, list) else []
    named = (option.get("value") for option in found if isinstance(option, Mapping))
    return {value for value in named if isinstance(value, str)}
