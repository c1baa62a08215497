"""The data of a confirmation: the row, its revisions, its votes. Pure.

`states.py` and `decision.py` change it. All of it is stored: `stored_json.py` writes and reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Annotated

from pydantic import Field

from adk_confirm.blocks.shown import OutcomeKind as OutcomeKind
from adk_confirm.blocks.shown import State as State
from adk_confirm.bot.confirmation.authorise import VoteKind as VoteKind
from adk_confirm.bot.confirmation.stored_json import ExactJson, ExactObject
from adk_confirm.bot.policy.approvers import Person, caller
from adk_confirm.bot.policy.policies import CallFacts, FrozenPolicy
from adk_confirm.bot.policy.redaction import Redactor, is_hidden
from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.wire import SessionId


class Ask(StrEnum):
    """What a request asks people for."""

    CONFIRMATION = "confirmation"  # may this call run?
    NODE = "node"  # may this node of a workflow run?
    INPUT = "input"  # an answer to a question
    OPERATION = "operation"  # how does this long-running operation, which has begun, end?


class VoteState(StrEnum):
    PENDING = "pending"  # stored, not yet counted
    STANDING = "standing"
    FALLEN = "fallen"  # counted before, but an edit, a bar or `reapply` ended it


SLACK = "slack-"
"""The prefix of the names of Slack's users and sessions. Nothing else may use such a name."""

DOOR = "door"
"""The app of the sessions that programs begin at the door."""

_ALL_HIDDEN = "The policy hides all of it."
_REPEATS = "It repeats a value that the policy hides, so not all of it can be shown."


@dataclass(frozen=True, kw_only=True)
class HostRequest:
    """A request that an agent made in a session."""

    request_id: str
    call_id: str
    tool: str
    arguments: ExactObject  # all that the tool gets
    agent: str
    invocation_id: str = ""
    hint: str = ""
    wants_payload: bool = False
    payload: ExactJson = None  # the form that an answer fills in
    payload_schema: ExactObject | None = None
    tool_schema: ExactObject | None = None
    defaults: tuple[str, ...] = ()  # the arguments that the agent did not give: the tool's defaults
    title: str | None = None  # the tool's own title, as a format string over the arguments
    why: str = ""  # the agent's own reason
    preview: ExactObject | None = None  # what the tool says that the call would do: `Preview.as_json`
    approved_preview: ExactObject | None = None  # the preview that people approved before, if it differs from `preview`
    attempts: int = 0  # attempts before this one: nobody knows whether the last of them took effect
    edited_unseen: bool = False  # people edited the call and approved it, and saw only what the unedited call would do
    misfit: Annotated[str, Field(exclude=True)] = ""  # what the agent's server says is wrong with the arguments
    unbound: bool = False  # nobody says which arguments the tool takes
    reports: bool = False  # the agent is a program that runs the call itself, and says what became of it
    previews_edits: bool = False  # the host can say what the edited call would do, before people approve it
    can_edit: bool = True  # whether edited arguments reach the tool; if not, an edit becomes a denial that says so
    ask: Ask = Ask.CONFIRMATION
    siblings: str = ""  # the same text for all requests whose answers their agent takes only together

    @property
    def question(self) -> bool:
        """Whether the request wants an answer, and not an approval."""
        return self.ask is Ask.INPUT

    @property
    def turn(self) -> str:
        """The answers to requests of one turn are sent together, once all are decided. The nodes of a workflow each
        wait for their own answer, and so does every request without a turn."""
        return self.siblings if self.ask is Ask.CONFIRMATION else ""


@dataclass(frozen=True, kw_only=True)
class AskedCall(HostRequest):
    """The request as it came, and the people behind it. It never changes."""

    session: SessionId
    asked_by: Person  # who asked the agent for this
    team: str
    channel: str = ""
    speakers: frozenset[Person] = field(default_factory=frozenset)
    trace: str | None = None  # the trace in which it was asked, as a `traceparent`; later spans belong to it

    @property
    def by_caller(self) -> bool:
        """Whether a program asked at the door. The agent is then the caller."""
        return self.session.app == DOOR

    @property
    def reporter(self) -> Person | None:
        """The program that runs the call itself, and says what became of it."""
        return caller(self.agent) if self.reports else None

    def facts(self, arguments: JsonObject | None = None) -> CallFacts:
        """The call as a policy sees it. With other arguments: as the policy would see the edited call."""
        return CallFacts(
            tool=self.tool,
            args=self.arguments if arguments is None else arguments,
            session=self.session.id,
            asker=self.asked_by.user,
            channel=self.channel,
            agent=self.agent,
            app=self.session.app,
            team=self.team,
            question=self.question,
            payload=self.payload,
            words=self.hint if self.question else "",
        )

    def again(self, arguments: JsonObject, speakers: frozenset[Person]) -> AskedCall:
        """The same call, asked for again by the same person with these arguments."""
        return replace(self, arguments=arguments, speakers=self.speakers | speakers)


@dataclass(frozen=True, kw_only=True)
class Revision:
    """What people vote on. An edit makes a new revision, and so does an unknown outcome, since the votes about it must
    all be new. `preview`: what the edited call would do, once that is known. `at`: since when people could approve."""

    number: int
    arguments: ExactObject
    payload: ExactJson
    preview: ExactObject | None = None
    author: Person | None = None
    at: datetime


@dataclass(frozen=True)
class Edit:
    """What an approver changed: arguments by name, or the payload as a whole."""

    arguments: ExactObject = field(default_factory=dict)
    payload: ExactJson = None


@dataclass(frozen=True, kw_only=True)
class Seat:
    """Where in Slack a person acts, so that they get the answer there. Nothing is decided by it. If they act in a list
    that only they see, the URL that changes this list is left out, since it must not be stored."""

    person: Person
    team: str = ""  # the workspace that installed the app, which may differ from the person's
    channel: str = ""
    thread_ts: str = ""
    message: str = ""  # the card, which shows the result by itself
    home: bool = False  # the Home tab
    lists: bool = False  # a list that only they see
    window: str = ""  # the window in which they press something
    trigger: str = ""  # a window can be opened with it, once, for three seconds


@dataclass(frozen=True, kw_only=True)
class Vote:
    """One person's vote on one revision. Votes count in the order of `stored_at`. `stands_on` is the revision for which
    it was counted."""

    id: str
    kind: VoteKind
    voter: Person
    revision: int
    stored_at: datetime
    reason: str | None = None
    edit: Edit | None = None
    grant: bool = False
    way: str = "button"
    seat: Seat | None = None  # where the voter sees the result
    state: VoteState = VoteState.PENDING
    stands_on: int | None = None
    heard: int | None = None  # the version of the row in which it was counted


@dataclass(frozen=True, kw_only=True)
class Decision:
    state: State
    at: datetime
    revision: int
    by: Person | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    kind: OutcomeKind
    attempt: int
    at: datetime
    begun_at: datetime | None = None
    text: str | None = None  # result, error or refusal, exactly as the host gave it
    by: Person | None = None

    @property
    def seconds(self) -> float | None:
        return (self.at - self.begun_at).total_seconds() if self.begun_at else None


@dataclass(frozen=True, kw_only=True)
class OutsideAnswer:
    """An answer that was not given in this app. It raises an alarm."""

    at: datetime
    confirmed: bool | None


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a card goes. The worker writes `ts` and `drawn_version`.

    A place without a channel is for people who could not be looked up yet.
    """

    channel: str
    thread_ts: str | None = None
    ts: str | None = None
    drawn_version: int = 0
    person: Person | None = None  # of a direct message
    pointer: bool = False  # only a line that links to the card elsewhere


@dataclass(frozen=True, kw_only=True)
class Grant:
    """A vote given in advance: see `grants.py`. It is stored in the confirmation with which it was given."""

    id: str  # of that confirmation
    session: SessionId
    team: str
    agent: str | None = None  # None: from before grants were bound to an agent. It covers nothing.
    tool: str
    ask: Ask = Ask.CONFIRMATION
    title: str | None = None
    policy: str  # the fingerprint
    on: ExactObject  # the arguments that must be equal
    free: tuple[str, ...] = ()  # those that may differ: it covers no call with another one
    hint: str = ""  # the tool's hint about the call that it was given with
    given_by: tuple[Person, ...]
    given_at: datetime
    until: datetime
    uses: int | None = None  # for how many calls; None: any number
    used: Annotated[int, Field(exclude=True)] = 0  # how many calls it let through: counted in the ledger

    @property
    def used_up(self) -> bool:
        return self.uses is not None and self.used >= self.uses


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    id: str
    asked: AskedCall
    policy: FrozenPolicy
    asked_at: datetime
    revisions: tuple[Revision, ...]
    deadline: datetime
    votes: tuple[Vote, ...] = ()
    state: State = State.WAITING
    decision: Decision | None = None
    outcome: Outcome | None = None
    attempt: int = 1
    remind_at: datetime | None = None
    redraw_at: datetime | None = None  # until then Slack may still carry out a request that got no answer
    doubt: int = 0  # how many more times its cards are searched for in Slack: now, and once nothing can arrive any more
    escalate_at: datetime | None = None
    escalated: bool = False  # whether the escalation was announced; it holds from `escalate_at` on
    start_by: datetime | None = None
    handed_at: datetime | None = None  # when the approval was given to the host
    unreached: bool = False  # the host could not be reached with the approval
    unknown_until: datetime | None = None
    outside: OutsideAnswer | None = None
    grant: Grant | None = None  # the grant that was given with its approval, until that grant ends
    by_grant: str | None = None  # nobody was asked: this grant let it through
    places: Annotated[tuple[Place, ...], Field(exclude=True)] = ()  # in a column of their own: they outlive a void row
    unsealed: bool = False  # the row was void, and was written anew from the ledger, with an alarm
    version: int = 1  # of the row
    face: int = 1  # the version with the last change that people see
    changed_at: datetime

    def heard(self, speakers: frozenset[Person]) -> Confirmation:
        """The row to show, with all who have spoken to the agent. Not to be saved: what was asked never changes."""
        return replace(self, asked=replace(self.asked, speakers=self.asked.speakers | speakers))

    @property
    def silent(self) -> frozenset[str]:
        """Who can't approve it, because they spoke to the agent. Not the asker, whom the card names anyway."""
        if self.state is not State.WAITING or self.policy.allow_requester is not False:
            return frozenset()
        return frozenset(one.user for one in self.asked.speakers) - {self.asked.asked_by.user}

    @property
    def revision(self) -> Revision:
        return self.revisions[-1]

    @property
    def is_first(self) -> bool:
        """Whether this attempt is the one that was asked for: no earlier attempt of this request ended unknown."""
        return self.attempt == self.asked.attempts + 1

    @property
    def is_void(self) -> bool:
        """Whether somebody had changed the row in the database. The row was then written anew from the ledger, and
        ended."""
        return self.unsealed and not self.policy.approvers

    @property
    def grant_until(self) -> datetime | None:
        """Until when the grant that came with it is in force."""
        return self.grant.until if self.grant else None

    @property
    def whole_preview(self) -> JsonObject | None:
        """What the call would do, as its tool says it. None also while that is being looked up for an edited call."""
        edited = self.asked.previews_edits and self.revision.author is not None
        return self.revision.preview if edited else self.asked.preview

    @property
    def awaits_preview(self) -> bool:
        """Whether the call was edited, and what it would do now is not known yet."""
        return self.state is State.WAITING and self.asked.previews_edits and self.whole_preview is None

    @property
    def preview(self) -> Preview | None:
        """What people may see of what the call would do."""
        return self.masked(Preview.of(self.whole_preview))

    @property
    def lacks_preview(self) -> bool:
        """Whether nobody may approve, because nobody can see what the call would do."""
        return self.awaits_preview or self.is_unseen(Preview.of(self.whole_preview))

    def is_unseen(self, made: Preview | None) -> bool:
        seen = self.masked(made) if self.policy.preview == "required" else None
        return seen is not None and seen.failed is not None

    def masked(self, made: Preview | None) -> Preview | None:
        """What people may see of a preview. It counts as failed if the policy hides all of it, or if a part is hidden
        because it repeats a hidden value of the call: by choosing that value the agent could hide its plan."""
        if made is None:
            return None
        if made.failed is not None:
            return Preview(failed=self.redactor.mask_text(made.failed))
        shows = self.redactor.mask(made.shows)
        if shows != made.shows and is_hidden(shows):
            return Preview(failed=_ALL_HIDDEN)
        return Preview(failed=_REPEATS) if self.redactor.repeats(made.shows) else Preview(shows)

    @property
    def runs(self) -> bool:
        """Whether the call is approved, and its end is not known yet."""
        return self.state is State.APPROVED and (self.outcome is None or self.outcome.kind is OutcomeKind.RUNNING)

    @property
    def pending_votes(self) -> tuple[Vote, ...]:
        """Stored votes not yet counted, oldest first."""
        return tuple(vote for vote in self.votes if vote.state is VoteState.PENDING)

    def standing_votes(self, kind: VoteKind) -> tuple[Vote, ...]:
        """The counted votes of a kind on the current revision, in order."""
        here = self.revision.number
        return tuple(v for v in self.votes if v.kind is kind and v.state is VoteState.STANDING and v.stands_on == here)

    def voters(self, kind: VoteKind) -> tuple[Person, ...]:
        """The people who approved the current revision: each account once, whichever team it voted from."""
        accounts = {vote.voter.user: vote.voter for vote in reversed(self.standing_votes(kind))}
        return tuple(reversed(accounts.values()))

    @property
    def approvals(self) -> tuple[Vote, ...]:
        return self.standing_votes(VoteKind.APPROVE)

    @property
    def answered(self) -> bool:
        """Whether somebody has filled in the payload that the request wants. Others may then simply approve."""
        return self.revision.author is not None or bool(self.approvals)

    @property
    def givers(self) -> frozenset[Person]:
        """The people who gave the grant that is in force."""
        return frozenset(self.grant.given_by) if self.grant else frozenset()

    @property
    def quiet(self) -> bool:
        """Whether no card is needed: a grant let the call through, and people have nothing to do."""
        return self.by_grant is not None and not self.unknown

    @property
    def shown(self) -> int:
        """The oldest version of the row that one of its cards shows."""
        return min((place.drawn_version for place in self.places if place.ts and not place.pointer), default=0)

    @property
    def unknown(self) -> bool:
        return self.outcome is not None and self.outcome.kind is OutcomeKind.UNKNOWN

    @property
    def card_channels(self) -> tuple[str, ...]:
        """The channels that have a card now. A line that only links to a card does not count."""
        standing = (place.channel for place in self.places if place.channel and place.ts and not place.pointer)
        return tuple(dict.fromkeys(standing))

    @cached_property
    def redactor(self) -> Redactor:
        """Masks all that is shown of this confirmation: hidden values of its calls and of their results."""
        known = [x for r in self.revisions for x in (r.arguments, r.payload)]
        return Redactor(self.policy.redact, *known, self.outcome.text if self.outcome else None)
