"""Builds the views that clicks open, and reads them when they are submitted. Connects rows with Block Kit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from adk_confirm.blocks import form, full_view, notices, words
from adk_confirm.blocks.click_ids import Ref, parse_ref
from adk_confirm.blocks.shown import PAYLOAD, Refusal, Verdict
from adk_confirm.blocks.thread import history
from adk_confirm.bot.audit.ledger import LedgerLine
from adk_confirm.bot.confirmation.authorise import Reason
from adk_confirm.bot.confirmation.confirmation import Confirmation, Edit, Seat, State, VoteKind
from adk_confirm.bot.confirmation.edits import apply_edit, check_edit
from adk_confirm.bot.confirmation.shown import shown_of
from adk_confirm.bot.confirmation.shown_lines import About, shown_line
from adk_confirm.bot.confirmation.stored_json import UnreadableRecord, from_json, to_json
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.policy.policies import Policies
from adk_confirm.runtime.jsontypes import JsonObject

GONE = "This confirmation is not known here any more. The card may belong to another installation."
OVER = "This {what} is decided. The card shows the result."
MOST_METADATA = 3000


@dataclass(frozen=True, kw_only=True)
class SubmittedForm:
    """What a submitted form says."""

    kind: VoteKind
    reason: str | None = None
    edit: Edit | None = None
    grant: bool = False


def form_of(row: Confirmation) -> form.Form:
    """The fields of the row's answer, or of its arguments. Blocks until its schema is read, which may fail with
    `UnreadableSchema`."""
    return form.Form(shown_of(row), row.asked.payload_schema if row.asked.wants_payload else row.asked.tool_schema)


def approve_view(row: Confirmation, ref: Ref, *, grant: bool = False) -> JsonObject:
    wants = row.asked.wants_payload
    return _while_waiting(row, ref) or form.approve_form(shown_of(row), form_of(row) if wants else None, grant=grant)


def edit_view(row: Confirmation, ref: Ref) -> JsonObject:
    if row.asked.wants_payload:  # then people change the answer, beside everything that it is about
        return approve_view(row, ref)
    return _while_waiting(row, ref) or form_of(row).edit_view()


def deny_view(row: Confirmation, ref: Ref) -> JsonObject:
    required = row.policy.deny_reason == "required"
    return _while_waiting(row, ref) or form.deny_form(shown_of(row), required=required)


def withdraw_view(row: Confirmation, ref: Ref) -> JsonObject:  # noqa: ARG001  (an edit does not matter)
    """The form to withdraw a request. It works for any revision, since the whole request is withdrawn."""
    return _over(row) if row.state is not State.WAITING else form.withdraw_form(shown_of(row))


def everything_view(row: Confirmation, ref: Ref) -> JsonObject:  # noqa: ARG001  (looking is always possible)
    return full_view.everything(shown_of(row))


def refusal_view(row: Confirmation, refusal: Refusal, voter: Person) -> JsonObject:
    return notices.verdict_modal(shown_of(row), Verdict(confirmation=row.id, refusal=refusal), voter.user)


def history_view(row: Confirmation, lines: Sequence[LedgerLine]) -> JsonObject:
    """The steps of one confirmation, each with its time."""
    about = About(row, shown_of(row))
    return history(about.call, [step for line in lines if (step := shown_line(line, about)) is not None])


def run_again_view(row: Confirmation, ref: Ref) -> JsonObject:
    if not row.unknown or ref.revision != row.revision.number:
        return _over(row)
    return full_view.everything(shown_of(row), again=True)


def _over(row: Confirmation) -> JsonObject:
    return notices.notice_modal(OVER.format(what=words.NOUN[row.asked.question]), notices.TOO_LATE)


def _while_waiting(row: Confirmation, ref: Ref) -> JsonObject | None:
    if row.state is not State.WAITING:
        return _over(row)
    return notices.notice_modal(words.WHY[Reason.OLDER_REVISION]) if ref.revision != row.revision.number else None


def read_edit(row: Confirmation, values: Mapping[str, object], policies: Policies) -> SubmittedForm:
    """The changed values, if the policy allows these changes. Raises `FormErrors`."""
    edit = _read_changes(row, values, policies, must_change=True)
    note = None if row.asked.previews_edits else form.read_note(shown_of(row), values)
    return SubmittedForm(kind=VoteKind.APPROVE, edit=edit, reason=note)


def read_approval(row: Confirmation, values: Mapping[str, object], terms: str, policies: Policies) -> SubmittedForm:
    answer = _read_changes(row, values, policies) if row.asked.wants_payload else None
    shown = shown_of(row)
    grant, note = form.gives_grant(shown, terms), form.read_note(shown, values)
    return SubmittedForm(kind=VoteKind.APPROVE, edit=answer, grant=grant, reason=note)


def _read_changes(
    row: Confirmation, values: Mapping[str, object], policies: Policies, *, must_change: bool = False
) -> Edit:
    fields = form_of(row)
    changes = fields.read(values, must_change=must_change)
    edit = Edit(arguments=changes)
    if row.asked.wants_payload:
        edit = Edit(payload=form.payload_with(row.revision.payload, row.asked.payload_schema, changes))
        if edit.payload is None and row.revision.payload is not None:  # an edit without a payload leaves it as it is
            raise form.FormErrors(fields.errors_at({PAYLOAD: words.WHY[Reason.WRONG_KIND].format(fields="This")}))
    if wrong := _problems(row, edit, policies):
        raise form.FormErrors(fields.errors_at(wrong))
    return edit


def _problems(row: Confirmation, edit: Edit, policies: Policies) -> dict[str, str]:
    """Why this edit can't be counted, as a sentence for each field."""
    refusal = check_edit(row, edit, policies)
    if refusal is not None:
        return dict.fromkeys(refusal.fields, words.WHY[refusal.reason].format(fields="This"))
    after = apply_edit(row, edit)
    edited = replace(row.revision, number=row.revision.number + 1, arguments=after.arguments, payload=after.payload)
    if full_view.can_be_shown(shown_of(replace(row, revisions=(*row.revisions, edited)))):
        return {}
    too_long = "With this, the call would be too long for a window. Write less."
    return dict.fromkeys((change.path for change in after.changes), too_long)


def read_denial(row: Confirmation, values: Mapping[str, object]) -> SubmittedForm:
    reason = form.read_denial(values, required=row.policy.deny_reason == "required")
    return SubmittedForm(kind=VoteKind.DENY, reason=reason)


def with_seat(view: JsonObject, seat: Seat, url: str) -> JsonObject:
    """Adds to the view's metadata where it was opened, since Slack does not say so when it is submitted. `url`: it
    changes the list from which the view was opened. Only Slack keeps it, since whoever has it can write there."""
    metadata = f"{view.get('private_metadata') or ''} {url} {to_json(seat, exclude_defaults=True)}"
    return {**view, "private_metadata": metadata} if len(metadata) <= MOST_METADATA else view


def read_metadata(metadata: object) -> tuple[Ref | None, Seat | None, str, str]:
    """What `with_seat` wrote, read strictly; the last is the terms of the grant that the form gives."""
    about, url, seat = (*(metadata.split(" ", 2) if isinstance(metadata, str) else ()), "", "", "")[:3]
    ref, _, terms = about.partition("/")
    try:
        return parse_ref(ref), from_json(Seat, seat) if seat else None, url, terms
    except UnreadableRecord:
        return parse_ref(ref), None, "", terms
