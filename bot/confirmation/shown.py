"""`Shown`: a confirmation as people may see it. Pure.

`blocks` draws nothing else, and never sees a row: it can't show what the policy hides. To show a new fact, compute it
in `Shown.__init__`, and draw it.

Some strings come from an agent or a tool, and may be hostile: `tool`, `agent`, `hint`, `Argument.name` and `.value`,
`FieldDiff`, `result`, `error`, `reason`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Self

from adk_confirm.blocks.json_schema import Schema, property_names
from adk_confirm.bot.confirmation import decision_texts, edits
from adk_confirm.bot.confirmation.edits import ABSENT as ABSENT
from adk_confirm.bot.confirmation.edits import Absent as Absent
from adk_confirm.bot.confirmation.edits import FieldDiff as FieldDiff
from adk_confirm.bot.confirmation.grants import fixed_arguments, lasts
from adk_confirm.bot.confirmation.model import (
    Ask,
    Confirmation,
    Grant,
    OutcomeKind,
    Revision,
    State,
    VoteKind,
    VoteState,
)
from adk_confirm.bot.confirmation.states import SAID_BY_PEOPLE
from adk_confirm.bot.policy.approvers import Approver, ApproverKind, Person
from adk_confirm.bot.policy.model import Formats
from adk_confirm.bot.policy.redaction import MASK, PAYLOAD, Redactor
from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.runtime.jsontypes import Json, JsonObject, canonical, same
from adk_confirm.runtime.titles import currencies, title_after_edit

MASK_SPELLED = "".join(f"\\u{ord(dot):04x}" for dot in MASK)

Stage = State | OutcomeKind
"""What a card says became of a call: its outcome if there is one, otherwise the decision."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the call. If `masked`, the whole value is redacted and `value` is never shown."""

    name: str
    value: Json
    masked: bool = False
    formats: Formats = ()
    """How it is shown ("" is the value itself), and how what is inside it is: ("amount", "EUR")."""
    is_default: bool = False
    """The agent did not give it, and nobody changed it: the tool uses its own default."""


@dataclass(frozen=True, slots=True)
class GrantView:
    """A permission for later calls of this tool with these arguments, in one session, given by all who approved."""

    id: str
    tool: str
    by: tuple[str, ...]
    until: int
    on: tuple[Argument, ...] = ()
    free: tuple[str, ...] = ()
    """The names of arguments that may differ."""
    uses: int | None = None
    """For how many calls. None: any number."""
    used: int = 0
    channel: str | None = None
    """Where its session is, in a list of grants. None: in direct messages."""


@dataclass(frozen=True, slots=True)
class GrantOffer:
    """What the Approve form may offer: for how long, bound to which arguments, which of them may differ, and for how
    many calls (None: any number)."""

    seconds: int
    on: tuple[Argument, ...] = ()
    free: tuple[str, ...] = ()
    uses: int | None = None


@dataclass(frozen=True, slots=True)
class Paused:
    """Runs are stopped by `adk-confirm pause`: by whom, and why. `reason` is supplied text."""

    by: str | None = None
    reason: str | None = None


NO_ACCOUNTS: Mapping[str, str] = MappingProxyType({})


class Shown:
    """A confirmation without what its policy hides. Nothing of it changes.

    `accounts` are the users behind the policy's addresses, as far as they are known; `grants` those in force: the one
    that came with this confirmation is shown on its card. `session_link` leads to the conversation if the card is
    somewhere else, `card_link` to the card from a list, `newer_link` to the card that took the place of this one.
    `spoke` are approvers who can't approve, because they spoke to the agent.
    """

    def __init__(
        self,
        row: Confirmation,
        *,
        accounts: Mapping[str, str] = NO_ACCOUNTS,
        grants: Sequence[Grant] = (),
        paused: Paused | None = None,
        session_link: str | None = None,
        card_link: str | None = None,
        newer_link: str | None = None,
        spoke: Sequence[str] = (),
    ) -> None:
        asked, policy, outcome, redactor = row.asked, row.policy, row.outcome, row.redactor
        waits, confirms = row.state is State.WAITING, not asked.wants_payload
        self.id, self.revision, self.version = row.id, row.revision.number, row.version
        self.stage = stage_of(row.state, outcome.kind if outcome else None)
        self.session_link, self.card_link, self.paused = session_link, card_link, paused
        self.spoke, self.speaking_bars = tuple(spoke), policy.allow_requester is False

        self._redactor = redactor

        # What is asked
        self.tool, self.agent, self.call_id = asked.tool, asked.agent, asked.call_id
        self.hint = str(redactor.mask_text(asked.hint))
        if asked.ask is Ask.OPERATION and asked.hint:  # what the tool said first
            self.hint = f"It has begun, and waits for its result. It says: {self.hint}"
        self.why = redactor.mask_text(asked.why) if policy.reason else ""  # what the agent says that it is for
        self.title = _title(row, redactor)
        self.question = asked.question  # the agent wants an answer; the arguments are what it is about
        self.operation = asked.ask is Ask.OPERATION  # it has begun: people decide how it ends
        self.unbound = asked.unbound
        self.asked_by, self.asked_at = asked.asked_by.user or None, epoch(row.asked_at)
        self.only_agent = asked.agent == asked.session.app  # and no agent behind the one that people speak to
        self.attempt = row.attempt
        # Of the arguments, and of what a result calls by the same name. The policy's win over the title's.
        self.formats = formats = (*currencies(self.title), *policy.format)
        self.arguments, hidden = masked_arguments(redactor, row.revision.arguments, formats, edits.defaults_left(row))
        self.first_arguments, _ = masked_arguments(redactor, asked.arguments, formats)
        self.wants_payload = asked.wants_payload
        self.payload, hidden_too = _payload(row, redactor, row.revision.payload)
        self.answered = row.answered  # somebody has filled the payload in, so that later approvers agree to it too
        self.answers = tuple(_answer(row, redactor, made) for made in row.revisions)  # in each revision
        self.hidden = hidden + hidden_too
        self.edited_by = row.revision.author.user if row.revision.author else None
        # What the tool says that it would do
        self.preview, self.awaits_preview = row.preview, row.awaits_preview
        edited = row.revision.preview is not None
        approved = None if edited or asked.edited_unseen else asked.approved_preview
        self.approved_preview = row.masked(Preview.of(approved))  # if it has changed since the approval
        self.changed_by_edit = asked.edited_unseen or (edited and not same(row.whole_preview, asked.preview))
        self.preview_is_masked = self.preview != Preview.of(row.whole_preview)
        self.preview_is_older = not asked.previews_edits and not same(row.revision.arguments, asked.arguments)
        self.previews_edits = asked.previews_edits  # so who edits has still to see what that does, and to approve it
        self.lacks_preview = waits and row.lacks_preview  # so nobody may approve
        self.diff = _diff(row, redactor) if confirms else ()  # an answer is not an edit
        may_edit = waits and (asked.previews_edits or not row.lacks_preview)
        self.editable = _editable(row, self.payload if asked.wants_payload else self.arguments) if may_edit else ()
        self.edit_denies = not asked.can_edit and confirms  # as the tool takes none; it tells the agent what is wanted

        # Who decides
        self.accounts = accounts
        self.approvers = named_approvers(policy.approvers, accounts)
        self.escalated_to = named_approvers(policy.escalate_to, accounts) if row.escalated else ()
        self.escalated_at = epoch(row.escalate_at) if row.escalated and row.escalate_at else None
        later = row.escalate_at if waits and not row.escalated else None
        self.escalates_to, self.escalates_at = (
            named_approvers(policy.escalate_to, accounts),
            epoch(later) if later else 0,
        )
        # Those who may approve now: they did not ask, or speak to the agent. Who is in a group is not known here.
        barred = {*spoke, *([asked.asked_by.user] if policy.allow_requester is not True else [])}
        now = (*self.approvers, *self.escalated_to)
        self.able = {one.value for one in now} - barred
        self.too_few_now = waits and _too_few(now, barred, policy.quorum)
        helped = self.able and later and not _too_few((*now, *self.escalates_to), barred, policy.quorum)
        self.too_few_may = self.too_few_now and not helped  # those who may later can make up for who is missing now
        self.notified = named_approvers(policy.notify, accounts)  # in place of the approvers
        self.policy_tools = policy.tools
        self.quorum, self.confirm_dialog = policy.quorum, policy.confirm_dialog
        self.voted = user_ids(row.voters(VoteKind.RUN_AGAIN if row.unknown else VoteKind.APPROVE))
        self.voted_at = {
            vote.voter.user: epoch(vote.stored_at) for vote in row.votes if vote.state is VoteState.STANDING
        }
        self.expires_at = epoch(row.deadline)
        self.start_by = epoch(row.start_by) if row.start_by else None
        self.approve_note = policy.approve_note if not asked.question else "none"
        self.withdrawable = waits
        names = policy.grant_on
        self.bound = tuple(one for one in self.arguments if names is None or one.name in names)  # by a grant
        binds = asked.preview is None and fixed_arguments(row.revision.arguments, policy) is not None
        offered = policy.grant if waits and confirms and binds else None
        self.free = _free(row)
        self.grant_offer = (
            GrantOffer(int(lasts(offered).total_seconds()), self.bound, self.free, offered.uses) if offered else None
        )
        self.grant = next((grant_view(grant, row) for grant in grants if grant.id == row.id), None)

        # Where it is shown
        cards = [place for place in row.places if not place.pointer]
        channels = [place.channel for place in cards if place.channel and place.person is None]
        self.channel = channels[0] if channels and asked.channel not in channels else None  # another than the session's
        self.threads = frozenset(() if row.quiet else (place.thread_ts for place in cards))

        # What became of it
        self.approved_by = () if row.by_grant else approved_by(row)
        self.decided_by = _decided_by(row)
        self.notes = _notes(row, redactor)
        self.reason = _reason(row, redactor)
        ended = row.decision if row.decision and row.decision.by is None else None
        # A newer card has taken the place of this one.
        self.asked_anew = ended is not None and ended.reason == decision_texts.ASKED_ANEW
        self.outside = row.outside.confirmed if row.outside else None  # None if nobody can tell
        # What it would do had changed when it was to start, so that people were asked again.
        self.drifted = outcome is not None and outcome.kind is OutcomeKind.REFUSED and _is_drift(outcome.text)
        self.newer_link = newer_link
        self.started_at = epoch(outcome.begun_at) if outcome and outcome.begun_at else None
        self.duration = outcome.seconds if outcome else None
        self.result: Json | Absent = ABSENT
        self.error: str | None = None
        if outcome and outcome.text is not None and outcome.kind is OutcomeKind.DONE:
            self.result = _as_value(redactor, outcome.text)
        elif outcome and outcome.text and outcome.kind in (OutcomeKind.FAILED, OutcomeKind.RUNNING):
            self.error = masked_text(redactor, outcome.text)

        # Problems
        self.answered_outside, self.unsealed = row.outside is not None, row.unsealed
        unreached = row.unreached and row.state is State.APPROVED and outcome is None
        self.tries_until = self.start_by if unreached else None  # its agent's server does not answer

    def mask(self, text: str) -> str:
        """What a tool or an agent said about the call."""
        return masked_text(self._redactor, text)

    def mask_values(self, values: JsonObject) -> JsonObject:
        """Values of the call in a line that was written earlier."""
        return self._redactor.mask_call(values)[0]

    def but(self, **facts: object) -> Self:
        """The same with other facts, to draw part of it."""
        assert facts.keys() <= vars(self).keys()
        other = copy(self)
        vars(other).update(facts)
        return other


def stage_of(state: State, outcome: OutcomeKind | None) -> Stage:
    """A call that was denied elsewhere shows as answered elsewhere."""
    denied_elsewhere = state is State.ELSEWHERE and outcome is OutcomeKind.REFUSED
    return state if outcome is None or denied_elsewhere else outcome


def epoch(at: datetime) -> int:
    return int(at.timestamp())


def user_ids(people: Iterable[Person]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(person.user for person in people))


def _too_few(named: Collection[Approver], barred: Collection[str], quorum: int) -> bool:
    """Whether these can't make up the quorum. A group or a function may stand for any number of people."""
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


def grant_view(grant: Grant, row: Confirmation, channel: str | None = None) -> GrantView:
    """`row`: the confirmation that the grant came with."""
    on, _ = masked_arguments(row.redactor, grant.on)
    by, until = user_ids(grant.given_by), epoch(grant.until)
    return GrantView(grant.id, grant.tool, by, until, on, _free(row), grant.uses, grant.used, channel)


def _free(row: Confirmation) -> tuple[str, ...]:
    """What may differ in a call that a grant allows: of the tool's arguments those to which the grant is not bound."""
    bound = row.policy.grant_on
    names = dict.fromkeys((*row.revision.arguments, *property_names(row.asked.tool_schema)))
    return () if bound is None else tuple(name for name in names if name not in bound)


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


def _formats_of(name: str, formats: Formats) -> Formats:
    """The formats of one argument. "" is the format of the value itself, other keys are parts of it."""
    inside = tuple((path[len(name) + 1 :], kind) for path, kind in formats if path.startswith(f"{name}."))
    return (*(("", kind) for path, kind in formats if path == name), *inside)


def _title(row: Confirmation, redactor: Redactor) -> str | None:
    """The policy's title, or else the tool's own. A title made by a function is used only for the original
    arguments, and only if it quotes nothing hidden."""
    edited = not same(row.revision.arguments, row.asked.arguments)
    title = row.policy.title or (title_after_edit(row.asked.title) if edited else row.asked.title)
    return title if title and redactor.mask_text(title) == title else None


def masked_text(redactor: Redactor, text: str) -> str:
    """A result, an error or a refusal as text. In JSON, values under hidden names are masked too."""
    value = _as_value(redactor, text)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _as_value(redactor: Redactor, text: str) -> Json:
    """The same as a JSON value. Text that is not a JSON object or list stays text."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return redactor.mask(json.loads(text))
        except (ValueError, RecursionError):
            pass  # not JSON after all
    return redactor.mask_text(text)


def payload_fields(payload: Json, schema: Schema | None) -> JsonObject:
    """The parts of a payload that a form shows: a field for each name, or one for a payload without names."""
    if isinstance(payload, dict) and (payload or property_names(schema)):
        return payload
    return {PAYLOAD: payload}


def _payload(row: Confirmation, redactor: Redactor, payload: Json) -> tuple[tuple[Argument, ...], int]:
    if not row.asked.wants_payload:
        return (), 0
    fields = payload_fields(payload, row.asked.payload_schema)
    if row.asked.question and not row.answered:  # a hidden field is shown without its default
        fields = {name: value for name, value in fields.items() if not redactor.hides(name)}
    return masked_arguments(redactor, fields, row.policy.format)


def _answer(row: Confirmation, redactor: Redactor, made: Revision) -> tuple[Argument, ...]:
    """The payload of this revision as a person filled it in; empty if nobody has."""
    answered = made.author is not None or (made is row.revision and row.answered)
    return _payload(row, redactor, made.payload)[0] if answered else ()


def _diff(row: Confirmation, redactor: Redactor) -> tuple[FieldDiff, ...]:
    """The changes from what was asked to what would run."""
    return edits.differences(*(_mask_call(redactor, made.arguments)[0] for made in (row.revisions[0], row.revision)))


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
    """Whose votes made the decision, each person once, in the order of the votes."""
    here, kinds = row.decision.revision if row.decision else None, (VoteKind.APPROVE, VoteKind.RUN_AGAIN)
    standing = (v for v in row.votes if v.state is VoteState.STANDING and v.stands_on == here and v.kind in kinds)
    return user_ids(vote.voter for vote in standing)


def _notes(row: Confirmation, redactor: Redactor) -> tuple[tuple[str, str], ...]:
    """What approvers wrote with the votes that count, and who."""
    votes = [vote for vote in row.votes if vote.state is VoteState.STANDING and vote.kind is VoteKind.APPROVE]
    return tuple((vote.voter.user, str(redactor.mask_text(vote.reason))) for vote in votes if vote.reason)


_DRIFTS = re.compile("|".join(map(re.escape, (decision_texts.PREVIEW_CHANGED, decision_texts.CHANGED_BY_EDIT))))


def _is_drift(why: str | None) -> bool:
    return _DRIFTS.match(why or "") is not None


def _reason(row: Confirmation, redactor: Redactor) -> str | None:
    """The reason that a person gave. Our own reasons to the model are not shown: the card has its own words for
    them."""
    if row.outcome and row.outcome.kind is OutcomeKind.REFUSED:
        if _is_drift(row.outcome.text):  # the card says so in its own words, but not whether an earlier attempt ran
            return _DRIFTS.sub("", row.outcome.text or "").strip() or None
        return masked_text(redactor, row.outcome.text) if row.outcome.text else None
    said = row.decision.reason if row.decision and row.state is State.DENIED else None
    if row.state is State.WITHDRAWN:
        said = next((vote.reason for vote in row.standing_votes(VoteKind.WITHDRAW)), None)
    return redactor.mask_text(said) if said else None
