"""Turns rows into what `blocks` draws: cards and lists. Pure. Everything that a policy redacts is masked here."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from blocks import view as shown
from blocks.form import PAYLOAD, payload_fields
from blocks.view import ABSENT, Absent, Argument, CardView, Face, FieldDiff
from bot.confirmation import decision_texts, edits
from bot.confirmation.grants import LONGEST_SESSION
from bot.confirmation.model import Ask, Confirmation, Grant, OutcomeKind, State, VoteKind, VoteState
from bot.confirmation.states import SAID_BY_PEOPLE
from bot.policy.approvers import Approver, ApproverKind, Person
from bot.policy.model import Formats
from bot.policy.redaction import Redactor
from runtime.jsontypes import Json, JsonObject, canonical
from runtime.titles import title_after_edit


@dataclass(frozen=True, kw_only=True)
class Links:
    """Links for the reader: to the session's thread and the card.

    `accounts` maps the policy's addresses to users, as far as they are known.
    """

    session: str | None = None
    card: str | None = None
    accounts: Mapping[str, str] = field(default_factory=dict)


NO_LINKS = Links()


def card_view(
    row: Confirmation,
    *,
    links: Links = NO_LINKS,
    grants: Sequence[Grant] = (),
    notices: Sequence[shown.Notice] = (),
) -> CardView:
    """The view of a confirmation. `grants` are those in force; the one given with this confirmation is shown on its
    card."""
    redactor = row.redactor
    arguments, hidden = masked_arguments(
        redactor, row.revision.arguments, row.policy.format, defaults=edits.defaults_left(row)
    )
    payload, hidden_too = _payload(row, redactor, row.revision.payload)
    outcome = row.outcome
    return CardView(
        id=row.id,
        revision=row.revision.number,
        version=row.version,
        face=face_of(row),
        tool=row.asked.tool,
        agent=row.asked.agent,
        arguments=arguments,
        title=_title(row),
        hint=redactor.mask_text(row.asked.hint) or None,
        hidden=hidden + hidden_too,
        asked_by=row.asked.asked_by.user or None,
        asked_at=epoch(row.asked_at),
        attempt=row.attempt,
        approvers=approvers_view(row.policy.approvers, links.accounts),
        escalated_to=approvers_view(row.policy.escalate_to, links.accounts) if row.escalated else None,
        quorum=row.policy.quorum,
        votes=_votes(row),
        expires_at=epoch(row.deadline),
        start_by=epoch(row.start_by) if row.start_by else None,
        edited_by=row.revision.author.user if row.revision.author else None,
        diff=_diff(row, redactor),
        decided_by=_decided_by(row),
        reason=_reason(row, redactor),
        started_at=epoch(outcome.begun_at) if outcome and outcome.begun_at else None,
        result=_result(row, redactor),
        error=readable(redactor, outcome.text)
        if outcome and outcome.text and _outcome_is(row, OutcomeKind.FAILED)
        else None,
        duration=outcome.seconds if outcome else None,
        happened=_took_effect(row),
        outside=row.outside.confirmed if row.outside else None,
        editable=_editable(row, arguments, payload),
        unbound=row.asked.unbound,
        edit_denies=not row.asked.can_edit and not row.asked.wants_payload,
        asked_anew=_ended_because(row, decision_texts.ASKED_ANEW),
        left_behind=_ended_because(row, decision_texts.LEFT_BEHIND),
        operation=row.asked.ask is Ask.OPERATION,
        question=row.asked.question,
        wants_payload=row.asked.wants_payload,
        payload=payload,
        answered=row.answered,
        withdrawable=row.state is State.WAITING,
        confirm_dialog=row.policy.confirm_dialog,
        grant_offer=_grant_offer(row, arguments),
        grant=next((grant_view(grant, redactor) for grant in grants if grant.id == row.id), None),
        session_link=links.session,
        card_link=links.card,
        notices=(*_own_notices(row), *notices),
    )


def _own_notices(row: Confirmation) -> list[shown.Notice]:
    """Notices about problems that the row itself records."""
    notices: list[shown.Notice] = [shown.AnsweredOutside()] if row.outside else []
    if row.unsealed:
        notices.append(shown.NotSealed())
    if row.asked.ends_turn and row.state is State.WAITING:
        notices.append(shown.EndsTurn())
    if row.unreached and row.state is State.APPROVED and row.outcome is None and row.start_by is not None:
        notices.append(shown.AgentUnreachable(epoch(row.start_by)))
    return notices


def face_of(row: Confirmation) -> Face:
    return face(row.state, row.outcome.kind if row.outcome else None)


def face(state: State, outcome: OutcomeKind | None) -> Face:
    """The card's state: the outcome if there is one, otherwise the decision. A call denied elsewhere shows as denied.
    Faces are called like states and outcomes."""
    denied_elsewhere = state is State.ELSEWHERE and outcome is OutcomeKind.REFUSED
    if outcome is None or denied_elsewhere:
        return Face(str(state))
    return Face.SETTLED if outcome in SAID_BY_PEOPLE else Face(str(outcome))


def grant_view(grant: Grant, redactor: Redactor) -> shown.GrantView:
    return shown.GrantView(
        id=grant.id,
        tool=grant.tool,
        by=tuple(person.user for person in grant.given_by),
        until=epoch(grant.until),
        uses=grant.uses,
        used=grant.used,
        on=masked_arguments(redactor, grant.on)[0],
    )


def approvers_view(entries: Iterable[Approver], accounts: Mapping[str, str] | None = None) -> shown.Approvers:
    known, listed = accounts or {}, tuple(entries)
    named = {kind: [entry.value for entry in listed if entry.kind is kind] for kind in ApproverKind}
    return shown.Approvers(
        users=tuple(named[ApproverKind.USER]),
        groups=tuple(named[ApproverKind.GROUP]),
        emails=tuple(shown.Email(address, known.get(address)) for address in named[ApproverKind.EMAIL]),
        callables=tuple(named[ApproverKind.PYTHON]),
    )


def masked_arguments(
    redactor: Redactor, values: JsonObject, formats: Formats = (), defaults: Collection[str] = ()
) -> tuple[tuple[Argument, ...], int]:
    """The arguments of a call that may be shown, and how many values are hidden. Nobody chose the `defaults`."""
    masked, hidden = redactor.mask_call(values)
    return tuple(
        Argument(
            name, value, masked=redactor.hides(name), formats=_formats_of(name, formats), is_default=name in defaults
        )
        for name, value in masked.items()
    ), hidden


def _formats_of(name: str, formats: Formats) -> Formats:
    """The formats of one argument. "" is the format of the value itself, other keys are parts of it."""
    inside = tuple((path[len(name) + 1 :], kind) for path, kind in formats if path.startswith(f"{name}."))
    return (*(("", kind) for path, kind in formats if path == name), *inside)


def _title(row: Confirmation) -> str | None:
    """The policy's title, or else the tool's own. A title made by a function is used only for the original
    arguments, and only if it quotes nothing hidden."""
    edited = row.revision.arguments != row.asked.arguments
    title = row.policy.title or (title_after_edit(row.asked.title) if edited else row.asked.title)
    return title if title and row.redactor.mask_text(title) == title else None


def readable(redactor: Redactor, text: str) -> str:
    """A result, an error or a refusal as text. In JSON, values under hidden names are masked too."""
    value = as_value(redactor, text)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def as_value(redactor: Redactor, text: str) -> Json:
    """The same as a JSON value. Text that is not a JSON object or list stays text."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return redactor.mask(json.loads(text))
        except (ValueError, RecursionError):
            pass  # not JSON after all
    return redactor.mask_text(text)


def epoch(at: datetime) -> int:
    return int(at.timestamp())


def _outcome_is(row: Confirmation, *kinds: OutcomeKind) -> bool:
    return row.outcome is not None and row.outcome.kind in kinds


def _payload(row: Confirmation, redactor: Redactor, payload: Json) -> tuple[tuple[Argument, ...], int]:
    if not row.asked.wants_payload:
        return (), 0
    fields = payload_fields(payload, row.asked.payload_schema)
    if row.asked.question and not row.answered:  # a hidden field is shown without its default
        fields = tuple(one for one in fields if not redactor.hides(one.name))
    return masked_arguments(redactor, {one.name: one.value for one in fields}, row.policy.format)


def answer_of(row: Confirmation, revision: int | None = None) -> tuple[Argument, ...]:
    """What somebody filled in, masked, now or in an earlier revision."""
    made = row.revisions[revision - 1] if revision and revision <= len(row.revisions) else row.revision
    answered = made.author is not None or (made is row.revision and row.answered)
    return _payload(row, row.redactor, made.payload)[0] if answered else ()


def _votes(row: Confirmation) -> tuple[shown.VoteView, ...]:
    kind, verdict = VoteKind.APPROVE, shown.VoteSide.APPROVE
    if row.unknown:
        kind, verdict = VoteKind.RUN_AGAIN, shown.VoteSide.RUN_AGAIN
    first = {vote.voter: vote for vote in reversed(row.standing_votes(kind))}
    return tuple(shown.VoteView(vote.voter.user, verdict) for vote in reversed(first.values()))


_SIDES = (VoteKind.APPROVE, VoteKind.RUN_AGAIN)


def _ended_because(row: Confirmation, reason: str) -> bool:
    """Why an answer would have no effect, if nobody ended the request."""
    return row.decision is not None and row.decision.by is None and row.decision.reason == reason


def _decided_by(row: Confirmation) -> tuple[str, ...]:
    """The approvers whose votes made the decision, or the one person who decided."""
    if _outcome_is(row, *SAID_BY_PEOPLE):
        return _user_ids([row.outcome.by] if row.outcome and row.outcome.by else [])
    if row.decision is None:
        return ()
    if row.state in (State.APPROVED, State.LAPSED) and (people := approved_by(row)):
        return people
    return _user_ids([row.decision.by] if row.decision.by else [])


def approved_by(row: Confirmation) -> tuple[str, ...]:
    """Whose votes made the decision, each person once, in the order of the votes."""
    here = row.decision.revision if row.decision else None
    standing = (v for v in row.votes if v.state is VoteState.STANDING and v.stands_on == here and v.kind in _SIDES)
    return _user_ids(vote.voter for vote in standing)


def _user_ids(people: Iterable[Person]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(person.user for person in people))


def _diff(row: Confirmation, redactor: Redactor) -> tuple[FieldDiff, ...]:
    """The changes from what was asked to what would run."""
    if row.asked.wants_payload:
        return ()  # an answer is not an edit
    before, after = (redactor.mask_call(made.arguments)[0] for made in (row.revisions[0], row.revision))
    return tuple(
        FieldDiff(name, before.get(name, ABSENT), after.get(name, ABSENT))
        for name in dict.fromkeys((*before, *after))
        if name not in before or name not in after or canonical(before[name]) != canonical(after[name])
    )


def _reason(row: Confirmation, redactor: Redactor) -> str | None:
    """The reason that a person gave. Our own reasons to the model are not shown: the card has its own words for
    them."""
    if _outcome_is(row, OutcomeKind.REFUSED):
        return readable(redactor, row.outcome.text) if row.outcome and row.outcome.text else None
    said = row.decision.reason if row.decision and row.state is State.DENIED else None
    if row.state is State.WITHDRAWN:
        said = next((vote.reason for vote in row.standing_votes(VoteKind.WITHDRAW)), None)
    return redactor.mask_text(said) if said else None


def _result(row: Confirmation, redactor: Redactor) -> Json | Absent:
    if row.outcome is None or row.outcome.kind is not OutcomeKind.DONE or row.outcome.text is None:
        return ABSENT
    return as_value(redactor, row.outcome.text)


def _took_effect(row: Confirmation) -> bool | None:
    return (
        _outcome_is(row, OutcomeKind.HAPPENED) if _outcome_is(row, OutcomeKind.HAPPENED, OutcomeKind.DID_NOT) else None
    )


def _editable(row: Confirmation, arguments: Sequence[Argument], payload: Sequence[Argument]) -> tuple[str, ...]:
    """Names of the values that may be edited. Never a masked value, since a form would replace it with the mask."""
    if row.state is not State.WAITING:
        return ()
    if row.asked.question:
        return edits.editable_names(row)
    wants = row.asked.wants_payload
    whole = {PAYLOAD: row.revision.payload}
    values = (row.revision.payload if isinstance(row.revision.payload, dict) else whole) if wants else None
    own = row.revision.arguments if values is None else values
    as_they_are = {
        one.name
        for one in (payload if wants else arguments)
        if not one.masked and one.name in own and canonical(one.value) == canonical(own[one.name])
    }
    return tuple(name for name in edits.editable_names(row) if name in as_they_are or name not in own)


def _grant_offer(row: Confirmation, arguments: Sequence[Argument]) -> shown.GrantOffer | None:
    offered, names = row.policy.grant, row.policy.grant_on
    if offered is None or row.asked.wants_payload or row.state is not State.WAITING:
        return None
    bound = tuple(one for one in arguments if names is None or one.name in names)
    length = LONGEST_SESSION if offered.length == "session" else offered.length
    return shown.GrantOffer(int(length.total_seconds()), bound, offered.uses)
