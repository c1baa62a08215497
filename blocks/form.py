"""Forms: a modal for what can be edited or must be answered, and what people entered in it.

A `Form` is built once, to draw it or to read it. Whoever reads it builds it from the row that it was drawn from (at the
revision in the private metadata). So it has the same fields, and only what differs from their values is a change.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import JsonValue

from adk_confirm.blocks import words
from adk_confirm.blocks.call_details import WHOLE, asked_by_line, content, headline
from adk_confirm.blocks.card import approvable, around, confirm_withdraw, deny_button, grant_scope, heading, status
from adk_confirm.blocks.click_ids import Callback
from adk_confirm.blocks.fields import ACTION, Field, Kind, Path, Value, Wrong, entry_in, field_for
from adk_confirm.blocks.full_view import (
    FIELD_BYTES,
    MOST_FIELDS,
    MOST_IN_ITEMS,
    cut_note,
    room_beside,
    split_pages,
    what_runs,
)
from adk_confirm.blocks.json_schema import Schema, Shape, payload_fields, problems, property_names, shapes
from adk_confirm.blocks.kit import JsonObject, header, input_block, modal, plain_text, section, small_print
from adk_confirm.blocks.ledger_kinds import Reason
from adk_confirm.blocks.readable import LONGEST_TITLE, one_of, readable_name
from adk_confirm.blocks.rich_text import Line, Piece, Say, join_list, line, name, part, rich
from adk_confirm.blocks.shown import ABSENT, PAYLOAD, Argument, GrantOffer, Shown
from adk_confirm.blocks.text import plain
from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.jsontypes import canonical, objects

REASON = "reason"
REASON_LENGTH = 1000
_FIELD = "field."


class FormErrors(ConfirmError):
    """What is wrong with a submitted form, by block id."""

    def __init__(self, errors: dict[str, str]) -> None:
        super().__init__(" ".join(errors.values()))
        self.errors = errors


class Form:
    """The fields of an answer, if the call wants one, and otherwise of its arguments. Raises `UnreadableSchema`."""

    def __init__(self, view: Shown, schema: Schema | None) -> None:
        self.view, self._schema = view, schema
        self.fields: list[Field] = []
        self.inputs: list[JsonObject] = []
        self._fixed: list[Argument] = []  # what is only shown
        self._long: list[str] = []  # what could be edited if it were not too long for an input
        self._crowded = False  # whether something is only shown because a form has no room for more fields
        self._room = FIELD_BYTES
        arguments, names = view.arguments, view.editable
        if view.wants_payload:
            arguments = view.payload
            names = (*names, PAYLOAD) if [one.name for one in arguments] == [PAYLOAD] else names
        self._chosen = view.answered or not view.wants_payload  # else the agent's, until somebody answers
        self._given = {one.name: one.value for one in arguments}
        self._formats = {one.name: dict(one.formats) for one in arguments}
        may = dict.fromkeys(names)
        labels = _labels({*self._given, *may})
        known = shapes(schema, [*may]) if schema is not None and may else {}
        values: list[tuple[str, Value, bool]] = [(one.name, one.value, one.masked) for one in arguments]
        values += [(one, ABSENT, False) for one in may if one not in self._given and one in known]
        # In the schema's order. Names that only the call has come last.
        order = {one: number for number, one in enumerate(property_names(schema))}
        values.sort(key=lambda one: order.get(one[0], len(order)))
        self._in_items = min(MOST_IN_ITEMS, MOST_FIELDS - len(values))
        for called, value, masked in values:
            # By its name: an operator may change the policy, and so which fields there are, while somebody fills it in.
            block_id = f"{_FIELD}{view.ref.encode()}.{_digest(called)}"
            shape = known.get(called, Shape())
            added = not masked and called in may and self._add(called, labels[called], block_id, value, shape)
            if value is not ABSENT and not added:
                self._fixed.append(Argument(called, value, masked))

    def _add(self, called: str, shown: str, block_id: str, value: Value, shape: Shape) -> bool:
        """Whether there are fields for this value now. Once one had no room, later ones get none either."""
        fields = self._inside((called,), shown, block_id, value, shape)
        inputs = _blocks(fields)
        if 0 < len(inputs) <= self._in_items:
            self._in_items -= len(inputs)
        else:
            fields = self._field((called,), shown, block_id, value, shape)
            inputs = _blocks(fields)
        self._crowded = self._crowded or len(self.inputs) + max(len(inputs), 1) > MOST_FIELDS
        if not self._crowded and not fields:
            self._long.append(called)
        if self._crowded or not fields:
            return False
        self._room -= sum(len(json.dumps(one)) for one in inputs)
        self._crowded = self._room < 0
        if not self._crowded:
            self.fields += fields
            self.inputs += inputs
        return not self._crowded

    def _inside(self, path: Path, shown: str, block_id: str, value: Value, shape: Shape) -> list[Field]:
        """A field for each value in an object, or in a list of objects, where a box removes an object. Empty for any
        other value, or for too many."""
        items = value if isinstance(value, list) else []
        holders: list[tuple[Path, str, str, Mapping[str, Value]]] = []  # where it is, title, block, what it holds
        if isinstance(value, dict) and {*shape.kinds} <= {"object"}:
            holders = [(path, shown, block_id, {**dict.fromkeys(shape.items, ABSENT), **value})]
        if {*shape.kinds} <= {"array"} and all(isinstance(item, dict) for item in items):
            for number, item in enumerate(objects(items)):
                holders.append(((*path, number), one_of(shown, number + 1), f"{block_id}.{number}", item))
        some = 0 < sum(len(holder) for *_, holder in holders) <= MOST_IN_ITEMS and all(holder for *_, holder in holders)
        fields: list[Field] = []
        for place, title, block, holder in holders if some and shape.options is None else ():
            labels = _labels(holder)
            for at, inner in enumerate(sorted(holder, key=[*shape.items, *holder].index)):
                where, one, rule = (*place, inner), holder[inner], shape.items.get(inner, Shape())
                about = (where, f"{title}: {labels[inner]}", f"{block}.{at}", one, rule)
                found = (self._inside(*about) if isinstance(one, dict) else []) or self._field(*about)
                if not found:
                    return []
                fields += found
            if items:
                gone, choice = Shape(required=False), words.REMOVE.format(item=title)
                fields.append(Field(place, title, f"{block}.remove", ABSENT, gone, Kind.REMOVE, options=(choice,)))
        return fields

    def _field(self, path: Path, shown: str, block_id: str, value: Value, shape: Shape) -> list[Field]:
        """One field for all of a value, if there is one."""
        called, *inside = path
        kind = self._formats.get(str(called), {}).get(".".join(one for one in inside if isinstance(one, str)), "")
        made = field_for(path, shown, block_id, value, shape, kind, chosen=self._chosen)
        return [made] if made else []

    # Drawing

    def edit_view(self) -> JsonObject:
        """What Edit… opens: editable values as fields, the rest as text. Submitting it is a vote for the edited
        call."""
        view = self.view
        about = [asked_by_line(view, exact=True), *content(replace(view, arguments=()), WHOLE).words]
        inputs = [*self.inputs, *([] if view.previews_edits else note_blocks(view))]
        above = split_pages(about, "intro", *room_beside(inputs))
        below = split_pages(self.fixed_content(), "page", *above.left)
        if not (above.whole and below.whole):
            blocks = [_heading(view), rich([line(words.NO_ROOM_TO_EDIT)], "no_room")]
            return _modal(Callback.EDIT, words.TITLE_EDIT, blocks, view, None)
        intro = words.EDIT_INTRO if view.previews_edits else words.edit_counts(view.quorum)
        does = line(words.EDIT_INTRO_DENIES if view.edit_denies else intro + words.EDIT_VOTED * bool(view.voted))
        submit = words.SUBMIT_EDIT[view.previews_edits] if self.inputs else None
        blocks = [_heading(view), *above.blocks, rich([does], "consequence"), *inputs, *below.blocks]
        blocks += small_print(self._notes(), "fixed")
        return _modal(Callback.EDIT, words.TITLE_EDIT, blocks, view, submit)

    def answer_blocks(self) -> list[JsonObject]:
        """The inputs that the Approve window gets if the agent asked for an answer."""
        intro = self.inputs and not self.view.question
        above = [rich([line(words.PAYLOAD_INTRO, tool=name(self.view.tool))], "intro")] if intro else []
        return [*above, *self.inputs, *small_print(self._notes(), "fixed")]

    def fixed_content(self) -> list[Piece]:
        if not self._fixed:
            return []
        shown = content(replace(self.view, arguments=tuple(self._fixed), diff=(), answered=False), WHOLE)
        return [Line((Say(words.STAYS, bold=True),)), *shown.runs]

    def _notes(self) -> list[Line]:
        names = join_list([name(one) for one in self._long[:10]])
        long = [line("Too long to edit here: {names}.", names=names)] if names else []
        return [*long, *([line(words.TOO_MANY_FIELDS)] if self._crowded else [])]

    # Reading

    def read(self, values: Mapping[str, object], *, must_change: bool = False) -> dict[str, JsonValue]:
        """The changed values by name. Raises `FormErrors`; also for a form without changes, if that is no edit."""
        changes: dict[str, JsonValue] = {}
        errors: dict[str, str] = {}
        if gone := {one for one in values if one.startswith(_FIELD)} - {one.block_id for one in self.fields}:
            raise FormErrors(dict.fromkeys(gone, words.FIELD_GONE))
        taken_out: list[Path] = []
        for one in sorted(self.fields, key=lambda one: one.kind is not Kind.REMOVE):
            try:
                found = one.current if one.path[:2] in taken_out else one.read(values)
            except Wrong as wrong:
                errors[one.block_id] = str(wrong)
            else:
                if one.kind is Kind.REMOVE:
                    taken_out += [] if found is ABSENT else [one.path]
                elif found is not one.current and found is not ABSENT:
                    self._change(changes, one.path, found)
        for path in reversed(taken_out):
            self._change(changes, path, ABSENT)
        if must_change and self.fields and not changes and not errors:
            raise FormErrors({self.fields[0].block_id: "Nothing has changed yet. Change a field, or go back."})
        wrong_values = problems(self._schema, changes) if self._schema is not None and changes else {}
        for called, problem in wrong_values.items():
            at, inside = self._place(called, problem.where, exactly=not taken_out)
            errors.setdefault(at, problem.sentence(inside))
        if errors:
            raise FormErrors(errors)
        return changes

    def _change(self, changes: dict[str, JsonValue], path: Path, value: Value) -> None:
        """Puts one new value into `changes`; all around it stays exactly as it is. Absent: removes the value."""
        called, *inside = path
        if not inside and value is not ABSENT:
            changes[str(called)] = value
            return
        holder: Any = changes.setdefault(str(called), copy.deepcopy(self._given[str(called)]))
        for step in inside[:-1]:
            holder = holder[step]
        if value is ABSENT:
            del holder[inside[-1]]
        else:
            holder[inside[-1]] = value

    def _place(self, called: str, where: Path, *, exactly: bool) -> tuple[str, int]:
        """The block of a value, and how much of the way to it the block's label says."""
        here = [one for one in self.fields if one.path[0] == called and one.kind is not Kind.REMOVE]
        for one in here if exactly else ():
            if one.path[1:] == where[: len(one.path) - 1]:
                return one.block_id, len(one.path) - 1
        return here[0].block_id, 0

    def errors_at(self, sentences: Mapping[str, str]) -> dict[str, str]:
        """Errors by block id, from sentences by name. One without a field here goes to the first field."""
        ids = {one.path[0]: one.block_id for one in reversed(self.fields) if one.kind is not Kind.REMOVE}
        errors: dict[str, str] = {}
        for called, sentence in sentences.items():
            at = ids.get(called) or (self.fields[0].block_id if self.fields else "")
            errors[at] = f"{errors[at]} {sentence}" if at in errors else sentence
        return errors


def _labels(names: Collection[str]) -> dict[str, str]:
    """Each name as people read it, or as it is if two would read the same."""
    seen = Counter(map(readable_name, names))
    return {one: (readable_name(one) if seen[readable_name(one)] == 1 else one) or "(empty)" for one in names}


def _blocks(fields: Sequence[Field]) -> list[JsonObject]:
    """The inputs, with a line below each item of a list."""
    blocks: list[JsonObject] = []
    for one in fields:
        blocks.append(one.block())
        blocks += [part("divider", block_id=f"{one.block_id}.line")] if one.kind is Kind.REMOVE else []
    return blocks


# -- Approve


def approve_form(view: Shown, form: Form | None = None, *, grant: bool = False) -> JsonObject:
    """What Approve opens if a click is not enough, and Review: everything that would run, the form of the answer if the
    call wants one, and Deny. `grant`: similar calls run next without asking, as the button says that opened it."""
    inputs, fixed = (form.inputs, form.fixed_content()) if form else ([], [])
    room = room_beside([*inputs, *note_blocks(view)])
    pages = split_pages([*what_runs(replace(view, answered=False)), *fixed, *around(view)], "page", *room)
    denies, said = deny_button(view), status(view)
    state = section(said, "state", denies) if denies else rich(said, "state")
    blocks = [_heading(view), state, *pages.blocks, *cut_note(pages)]
    may, offer = pages.whole and approvable(view), view.grant_offer if grant else None
    if may:
        blocks += form.answer_blocks() if form else []
        blocks += note_blocks(view)
        blocks += [rich(grant_scope(view, offer), "grant")] if offer is not None else []
    title, submit = ("Answer", "Send answer") if view.question else (words.APPROVE, words.APPROVE)
    if offer is not None:
        title, submit = words.TITLE_GRANT, "Approve and allow"
    opened = _modal(Callback.APPROVE, title, blocks, view, submit if may else None)
    return opened if offer is None else {**opened, "private_metadata": f"{view.ref.encode()}/{_terms(offer)}"}


def note_blocks(view: Shown) -> list[JsonObject]:
    """The field for a note that goes with an approval."""
    if view.approve_note == "none":
        return []
    return [_reason_block("Note", "The thread and the audit show it.", required=view.approve_note == "required")]


def _reason_block(label: str, hint: str, *, required: bool, focus: bool | None = None) -> JsonObject:
    entry = part("plain_text_input", action_id=ACTION, multiline=True, max_length=REASON_LENGTH, focus_on_load=focus)
    hint = f"{words.WANTED} {hint}" if required else hint
    return input_block(plain_text(label), entry, REASON, optional=not required, hint=hint)


def read_note(view: Shown, values: Mapping[str, object]) -> str | None:
    """The note of an approval. Raises `FormErrors`."""
    if view.approve_note == "none":
        return None
    return _said(values, "Write a note: the policy asks for one." if view.approve_note == "required" else None)


def gives_grant(view: Shown, terms: str) -> bool:
    """Whether the form gives a grant: then it has the terms in its metadata. Raises an error if something else is
    offered now, or nothing."""
    if terms and (view.grant_offer is None or terms != _terms(view.grant_offer)):
        raise ConfirmError(words.WHY[Reason.OLDER_REVISION])
    return bool(terms)


def _terms(offer: GrantOffer) -> str:
    differ: list[JsonValue] = [[one.name, one.limit] for one in offer.free]
    return _digest(canonical([offer.seconds, offer.uses, [one.name for one in offer.on], differ]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def payload_with(payload: JsonValue, schema: Schema | None, changes: Mapping[str, JsonValue]) -> JsonValue:
    """The payload with a form's changes. What nobody changed keeps its exact value."""
    if isinstance(payload, dict) and payload_fields(payload, schema) is payload:
        return {**payload, **changes}
    return changes.get(PAYLOAD, payload)


# -- Deny and Withdraw


def deny_form(view: Shown, *, required: bool) -> JsonObject:
    """What Deny opens. Slack draws its submit button green, and an app can't change that."""
    reason = _reason_block("Reason", words.REASON_HINT, required=required, focus=True)
    stops = rich([line("Stops it for everyone.")], "consequence")
    return _modal(Callback.DENY, words.DENY, [_named(view), stops, reason], view, words.DENY)


def read_denial(values: Mapping[str, object], *, required: bool) -> str | None:
    """The reason of a denial, as it was entered. Raises `FormErrors`."""
    return _said(values, "Say why: the policy asks for a reason." if required else None)


def _said(values: Mapping[str, object], required: str | None) -> str | None:
    """What somebody wrote. `required`: what is said if that is nothing."""
    text = (entry_in(values, REASON) or {}).get("value")
    said = text.strip() if isinstance(text, str) else ""
    if len(said) > REASON_LENGTH:
        raise FormErrors({REASON: f"Use at most {REASON_LENGTH} characters."})
    if required and not said:
        raise FormErrors({REASON: required})
    return said or None


def withdraw_form(view: Shown) -> JsonObject:
    """What Withdraw… in a card's menu opens: a menu entry can't ask "are you sure?"."""
    blocks = [_named(view), rich([line(confirm_withdraw(view)[1])], "consequence")]
    return _modal(Callback.WITHDRAW, words.WITHDRAW, blocks, view, words.WITHDRAW)


def _heading(view: Shown) -> JsonObject:
    return header(heading(view), "title")


def _named(view: Shown) -> JsonObject:
    """The call's headline, which does not ask: above a green button that says no, a question would mislead."""
    return header(plain(headline(view), LONGEST_TITLE), "title")


def _modal(callback: Callback, title: str, blocks: list[JsonObject], view: Shown, submit: str | None) -> JsonObject:
    return modal(callback, title, blocks, metadata=view.ref.encode(), submit=submit)
