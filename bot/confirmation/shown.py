"""Fills in `Shown`: a confirmation as people may see it, with what its policy hides masked. Pure.

To show a new fact, give it a field in `blocks/shown.py`, and compute it here, masked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from adk_confirm.blocks import words
from adk_confirm.blocks.json_schema import payload_fields
from adk_confirm.blocks.readable import scalar
from adk_confirm.blocks.rich_text import spoken
from adk_confirm.blocks.shown import (
    ABSENT,
    PAYLOAD,
    SAID_BY_PEOPLE,
    Approver,
    ApproverKind,
    Argument,
    Around,
    AskedFor,
    Became,
    FieldDiff,
    Formats,
    Free,
    GrantOffer,
    GrantView,
    OutcomeKind,
    Paused,
    Planned,
    Shown,
    Stage,
    State,
    Voting,
)
from adk_confirm.bot.confirmation import decision_texts, edits
from adk_confirm.bot.confirmation.confirmation import Ask, Confirmation, Grant, Revision, VoteKind, VoteState
from adk_confirm.bot.confirmation.grants import bound_arguments, free_names, lasts
from adk_confirm.bot.policy.approvers import Person, is_caller
from adk_confirm.bot.policy.redaction import MASK, Redactor
from adk_confirm.bot.policy.when import limits_of
from adk_confirm.runtime.calls.call import EARLIER
from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.runtime.jsontypes import Json, JsonObject, canonical, same
from adk_confirm.runtime.titles import currencies, title_after_edit

MASK_SPELLED = "".join(f"\\u{ord(dot):04x}" for dot in MASK)
NO_ACCOUNTS: Mapping[str, str] = MappingProxyType({})


def shown_of(
    row: Confirmation,
    *,
    accounts: Mapping[str, str] = NO_ACCOUNTS,
    grants: Sequence[Grant] = (),
    paused: Paused | None = None,
    session_link: str | None = None,
    card_link: str | None = None,
    newer_link: str | None = None,
    spoke: Sequence[str] = (),
    earlier: Confirmation | None = None,
) -> Shown:
    """`accounts` are the users behind the policy's addresses, as far as they are known; `grants` those in force: the
    one that came with this confirmation is shown on its card. `spoke`: the approvers in groups
    who can't approve, because they spoke to the agent. `earlier`: the one that `row` replaces, because its preview
    changed. The links are those of `Around`."""
    grant = next((grant_view(grant, row) for grant in grants if grant.id == row.id), None)
    around = Around(paused=paused, grant=grant, session_link=session_link, card_link=card_link, newer_link=newer_link)
    redactor = row.redactor
    asked = _asked_for(row, redactor)
    parts = (asked, _planned(row, earlier), _voting(row, asked, accounts, spoke), _became(row, redactor), around)
    facts = {name: value for part in parts for name, value in vars(part).items()}
    return Shown(id=row.id, revision=row.revision.number, version=row.version, **facts)


def _asked_for(row: Confirmation, redactor: Redactor) -> AskedFor:
    asked, policy = row.asked, row.policy
    title = _title(row, redactor)
    formats = _formats(row, title)
    arguments, hidden = masked_arguments(redactor, row.revision.arguments, formats, edits.defaults_left(row))
    payload, hidden_too = _payload(row, redactor, row.revision.payload)
    hint = str(redactor.mask_text(asked.hint))
    if row.attempt > 1:  # the card says so first, in its own words
        hint = hint.removeprefix(EARLIER).lstrip()
    if asked.ask is Ask.OPERATION and asked.hint:  # what the tool said first
        hint = f"It has begun, and waits for its result. It says: {hint}"
    may_edit = row.state is State.WAITING and (asked.previews_edits or not row.lacks_preview)
    return AskedFor(
        tool=asked.tool,
        agent=asked.agent,
        only_agent=asked.agent == asked.session.app,
        call_id=asked.call_id,
        asked_by=None if is_caller(asked.asked_by) else asked.asked_by.user or None,
        asked_at=epoch(row.asked_at),
        attempt=row.attempt,
        hint=hint,
        why=redactor.mask_text(asked.why) if policy.reason else "",
        title=title,
        question=asked.question,
        operation=asked.ask is Ask.OPERATION,
        unbound=asked.unbound,
        arguments=arguments,
        formats=formats,
        hidden=hidden + hidden_too,
        wants_payload=asked.wants_payload,
        payload=payload,
        answered=asked.wants_payload and row.answered,
        diff=() if asked.wants_payload else _diff(row, redactor),  # an answer is not an edit
        edited_by=row.revision.author.user if row.revision.author else None,
        editable=_editable(row, payload if asked.wants_payload else arguments) if may_edit else (),
        edit_denies=not asked.can_edit and not asked.wants_payload,
    )


def _planned(row: Confirmation, earlier: Confirmation | None) -> Planned:
    asked, preview = row.asked, row.preview
    edited = row.revision.preview is not None
    approved = None if edited or asked.edited_unseen else asked.approved_preview
    return Planned(
        preview=preview,
        approved_preview=row.masked(Preview.of(approved)),
        approved_then=approved_by(earlier) if earlier else (),
        awaits_preview=row.awaits_preview,
        lacks_preview=row.state is State.WAITING and row.lacks_preview,
        previews_edits=asked.previews_edits,
        changed_by_edit=asked.edited_unseen or (edited and not same(row.whole_preview, asked.preview)),
        preview_is_masked=preview != Preview.of(row.whole_preview),
        preview_is_older=not asked.previews_edits and _is_edited(row),
    )


def _voting(row: Confirmation, call: AskedFor, accounts: Mapping[str, str], spoke: Sequence[str]) -> Voting:
    asked, policy, waits = row.asked, row.policy, row.state is State.WAITING
    named = named_approvers(policy.approvers, accounts)
    leads = named_approvers(policy.escalate_to, accounts)
    later = row.escalate_at if waits and not row.escalated else None
    now = (*named, *(leads if row.escalated else ()))
    spoke = sorted({*spoke, *(one.value for one in now if one.kind is ApproverKind.USER and one.value in row.silent)})
    barred = {*spoke, *([asked.asked_by.user] if policy.allow_requester is not True else [])}
    able = frozenset(one.value for one in now) - barred
    too_few = waits and _too_few(now, barred, policy.quorum)
    helped = later and not _too_few((*now, *leads), barred, policy.quorum)
    return Voting(
        approvers=named,
        escalated_to=leads if row.escalated else (),
        escalates_to=tuple(one for one in leads if one.value not in barred),
        escalates_at=epoch(later) if later and (helped or not too_few) else 0,
        able=able,
        too_few_now=too_few,
        too_few_may=too_few and not (able and helped),
        spoke=tuple(spoke),
        speaking_bars=policy.allow_requester is False,
        quorum=policy.quorum,
        voted=user_ids(row.voters(VoteKind.RUN_AGAIN if row.unknown else VoteKind.APPROVE)),
        voted_at={
            v.voter.user: epoch(v.stored_at) for v in row.votes if v.state is VoteState.STANDING and v.kind in _DECIDE
        },
        expires_at=epoch(row.deadline),
        policy_tools=policy.tools,
        confirm_dialog=policy.confirm_dialog,
        approve_note=policy.approve_note if not asked.question else "none",
        grant_offer=_grant_offer(row, call.arguments),
    )


_DECIDE = (VoteKind.APPROVE, VoteKind.DENY, VoteKind.WITHDRAW, VoteKind.RUN_AGAIN)
"""Votes of other kinds come after the decision: on what became of the call, and on the end of its grant."""


def _grant_offer(row: Confirmation, arguments: Sequence[Argument]) -> GrantOffer | None:
    offered = row.policy.grant if row.state is State.WAITING else None
    if offered is None or bound_arguments(row) is None:
        return None
    seconds, on = int(lasts(offered).total_seconds()), bound_by(row, arguments)
    return GrantOffer(row.asked.tool, seconds, on, free_in(row), offered.uses)


def _became(row: Confirmation, redactor: Redactor) -> Became:
    outcome = row.outcome
    ended = row.decision if row.decision and row.decision.by is None else None
    said = outcome.text if outcome else None
    returned = outcome is not None and outcome.kind is OutcomeKind.DONE and said is not None
    failed = outcome is not None and outcome.kind in (OutcomeKind.FAILED, OutcomeKind.RUNNING) and said
    start_by = epoch(row.start_by) if row.start_by else None
    return Became(
        stage=stage_of(row.state, outcome.kind if outcome else None),
        approved_by=() if row.by_grant else approved_by(row),
        decided_by=_decided_by(row),
        notes=notes_in(row, redactor),
        reason=_reason(row, redactor),
        asked_anew=ended is not None and ended.reason == decision_texts.ASKED_ANEW,
        drifted=is_drift(row),
        start_by=start_by,
        started_at=epoch(outcome.begun_at) if outcome and outcome.begun_at else None,
        duration=outcome.seconds if outcome else None,
        said_at=epoch(outcome.at) if outcome and outcome.kind in SAID_BY_PEOPLE else 0,
        reported_by=row.asked.agent if outcome and outcome.by and outcome.by == row.asked.reporter else None,
        result=_as_value(redactor, said or "") if returned else ABSENT,
        error=masked_text(redactor, said or "") if failed else None,
        outside=row.outside.confirmed if row.outside else None,
        answered_outside=row.outside is not None,
        unsealed=row.unsealed,
        tries_until=start_by if row.unreached and row.state is State.APPROVED and outcome is None else None,
    )


def stage_of(state: State, outcome: OutcomeKind | None) -> Stage:
    """A call that was denied elsewhere shows as answered elsewhere."""
    denied_elsewhere = state is State.ELSEWHERE and outcome is OutcomeKind.REFUSED
    return state if outcome is None or denied_elsewhere else outcome


def epoch(at: datetime) -> int:
    return int(at.timestamp())


def user_ids(people: Iterable[Person]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(person.user for person in people))


def _too_few(named: Collection[Approver], barred: Collection[str], quorum: int) -> bool:
    """Whether these approvers are too few for the quorum. A group or a function may stand for any number of people."""
    return (
        all(one.kind is ApproverKind.USER for one in named) and len({one.value for one in named} - {*barred}) < quorum
    )


_ORDER = (ApproverKind.GROUP, ApproverKind.USER, ApproverKind.EMAIL, ApproverKind.PYTHON)


def named_approvers(entries: Iterable[Approver], accounts: Mapping[str, str] = NO_ACCOUNTS) -> tuple[Approver, ...]:
    """The entries in the order in which they are named, with the user in place of a known address."""
    return tuple(
        Approver(ApproverKind.USER, accounts[entry.value])
        if entry.kind is ApproverKind.EMAIL and entry.value in accounts
        else entry
        for entry in sorted(entries, key=lambda entry: _ORDER.index(entry.kind))
    )


def grant_view(grant: Grant, row: Confirmation, thread: str | None = None) -> GrantView:
    """`row`: the confirmation that the grant came with."""
    on, _ = masked_arguments(row.redactor, grant.on, _formats(row, _title(row, row.redactor)))
    by, until = user_ids(grant.given_by), epoch(grant.until)
    return GrantView(grant.id, grant.tool, by, until, on, free_in(row), grant.uses, grant.used, thread)


def free_in(row: Confirmation) -> tuple[Free, ...]:
    """The arguments that may differ under a grant, and within which limits of its policy's `when`, which must hold."""
    formats = _formats(row, _title(row, row.redactor))
    found = [(name, limits_of(row.policy.when or "", name)) for name in free_names(row)]
    return tuple(Free(name, _limit(name, limits, formats)) for name, limits in found)


def _limit(name: str, limits: Sequence[tuple[str, float]] | None, formats: Formats) -> str:
    kind = dict(formats).get(name)
    said = [f"{words.LIMITS[sign]} {spoken(scalar(number, kind, name))}" for sign, number in limits or ()]
    return words.WITHIN if limits is None else f"{' and '.join(said)} each" if said else ""


def bound_by(row: Confirmation, arguments: Sequence[Argument]) -> tuple[Argument, ...]:
    """The arguments that a grant would fix."""
    names = row.policy.grant_on
    return tuple(one for one in arguments if names is None or one.name in names)


def masked_arguments(
    redactor: Redactor, values: JsonObject, formats: Formats = (), defaults: Collection[str] = ()
) -> tuple[tuple[Argument, ...], int]:
    """The arguments of a call that may be shown, and how many values are hidden. Nobody chose the `defaults`."""
    masked, hidden = _mask_call(redactor, values)
    return tuple(
        Argument(name, value, redactor.hides(name), _formats_of(name, formats), name in defaults)
        for name, value in masked.items()
    ), hidden


def _mask_call(redactor: Redactor, values: JsonObject) -> tuple[JsonObject, int]:
    return redactor.mask_call({name: _with_dots_spelled(value) for name, value in values.items()})


def _with_dots_spelled(value: Json) -> Json:
    """The value, with its own texts spelled so that none looks like the dots that stand for a hidden one."""
    match value:
        case str():
            return value.replace(MASK, MASK_SPELLED)
        case list():
            return [_with_dots_spelled(one) for one in value]
        case dict():
            return {name: _with_dots_spelled(one) for name, one in value.items()}
    return value


def _formats(row: Confirmation, title: str | None) -> Formats:
    """How values of its call are shown. What the policy says wins over what the title says."""
    return (*currencies(title), *row.policy.format)


def _formats_of(name: str, formats: Formats) -> Formats:
    """The formats of one argument. "" is the format of the value itself, other keys are parts of it."""
    inside = tuple((path[len(name) + 1 :], kind) for path, kind in formats if path.startswith(f"{name}."))
    return (*(("", kind) for path, kind in formats if path == name), *inside)


def _title(row: Confirmation, redactor: Redactor) -> str | None:
    """The policy's title, or else the tool's own. A title made by a function is used only for the original
    arguments, and only if it quotes nothing hidden."""
    title = row.policy.title or (title_after_edit(row.asked.title) if _is_edited(row) else row.asked.title)
    return title if title and redactor.mask_text(title) == title else None


def masked_text(redactor: Redactor, text: str) -> str:
    """A result, an error or a refusal as text. In JSON, values under hidden names are masked too."""
    value = _as_value(redactor, text)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _as_value(redactor: Redactor, text: str) -> Json:
    """A result as a JSON value, masked. Text that is not a JSON object or list stays text."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return redactor.mask(json.loads(text))
        except (ValueError, RecursionError):
            pass  # not JSON after all
    return redactor.mask_text(text)


def _payload(row: Confirmation, redactor: Redactor, payload: Json) -> tuple[tuple[Argument, ...], int]:
    if not row.asked.wants_payload:
        return (), 0
    fields = payload_fields(payload, row.asked.payload_schema)
    if row.asked.question and not row.answered:  # a hidden field is shown without its default
        fields = {name: value for name, value in fields.items() if not redactor.hides(name)}
    return masked_arguments(redactor, fields, row.policy.format)


def answer_in(row: Confirmation, redactor: Redactor, made: Revision) -> tuple[Argument, ...]:
    """The payload of this revision as a person filled it in; empty if nobody has."""
    answered = made.author is not None or (made is row.revision and row.answered)
    return _payload(row, redactor, made.payload)[0] if answered else ()


def _diff(row: Confirmation, redactor: Redactor) -> tuple[FieldDiff, ...]:
    """The changes from what was asked to what would run."""
    if not _is_edited(row):
        return ()
    return edits.differences(*(_mask_call(redactor, made.arguments)[0] for made in (row.revisions[0], row.revision)))


def _is_edited(row: Confirmation) -> bool:
    """Whether other arguments would run than the agent asked for. The cheap check comes first."""
    return len(row.revisions) > 1 and not same(row.revision.arguments, row.asked.arguments)


def _editable(row: Confirmation, shown: Sequence[Argument]) -> tuple[str, ...]:
    """Names of the values that may be edited. Never a masked value, since a form would replace it with the mask."""
    names = edits.editable_names(row)
    if row.asked.question:
        return names
    payload = row.revision.payload if isinstance(row.revision.payload, dict) else {PAYLOAD: row.revision.payload}
    own = payload if row.asked.wants_payload else row.revision.arguments
    as_they_are = {
        one.name
        for one in shown
        if not one.masked and one.name in own and canonical(one.value) == canonical(own[one.name])
    }
    return tuple(name for name in names if name in as_they_are or name not in own)


def _decided_by(row: Confirmation) -> tuple[str, ...]:
    """The approvers whose votes made the decision, or the one person who decided."""
    if row.outcome and row.outcome.kind in SAID_BY_PEOPLE:
        return user_ids([row.outcome.by] if row.outcome.by else [])
    if row.decision is None:
        return ()
    if row.state in (State.APPROVED, State.LAPSED) and (people := approved_by(row)):
        return people
    return user_ids([row.decision.by] if row.decision.by else [])


def approved_by(row: Confirmation) -> tuple[str, ...]:
    """The people whose votes made the decision, each once, in the order of the votes."""
    here, kinds = row.decision.revision if row.decision else None, (VoteKind.APPROVE, VoteKind.RUN_AGAIN)
    standing = (v for v in row.votes if v.state is VoteState.STANDING and v.stands_on == here and v.kind in kinds)
    return user_ids(vote.voter for vote in standing)


def notes_in(row: Confirmation, redactor: Redactor) -> tuple[tuple[str, str], ...]:
    """The notes that approvers wrote with the votes that count, each with its author."""
    votes = [vote for vote in row.votes if vote.state is VoteState.STANDING and vote.kind is VoteKind.APPROVE]
    return tuple((vote.voter.user, str(redactor.mask_text(vote.reason))) for vote in votes if vote.reason)


_DRIFTS = re.compile("|".join(map(re.escape, (decision_texts.PREVIEW_CHANGED, decision_texts.CHANGED_BY_EDIT))))


def newer_of(row: Confirmation, rows: Sequence[Confirmation]) -> list[Confirmation]:
    """Which of the session's `rows` asks about this call again because its preview had changed: one, or none."""
    again = [one for one in rows if one.asked.call_id == row.asked.call_id]
    here = [one.id for one in again].index(row.id)
    return again[here + 1 : here + 2] if is_drift(row) else []


def is_drift(row: Confirmation) -> bool:
    """Whether the call did not start because its preview had changed."""
    refused = row.outcome is not None and row.outcome.kind is OutcomeKind.REFUSED
    return refused and row.outcome is not None and _DRIFTS.match(row.outcome.text or "") is not None


def _reason(row: Confirmation, redactor: Redactor) -> str | None:
    """The reason that a person gave. Our own reasons to the model are not shown: the card has its own words for
    them."""
    if row.outcome and row.outcome.kind is OutcomeKind.REFUSED:
        if is_drift(row):  # the card itself says that; what is left says whether an earlier attempt ran
            return _DRIFTS.sub("", row.outcome.text or "").strip() or None
        return masked_text(redactor, row.outcome.text) if row.outcome.text else None
    said = row.decision.reason if row.decision and row.state is State.DENIED else None
    if row.state is State.WITHDRAWN:
        said = next((vote.reason for vote in row.standing_votes(VoteKind.WITHDRAW)), None)
    return redactor.mask_text(said) if said else None
