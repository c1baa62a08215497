"""Prepares a request before people are asked: finds its policy, who asked for the call, and where to post its card."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from adk_confirm.blocks.full_view import can_be_shown
from adk_confirm.bot.config.settings import Rules
from adk_confirm.bot.confirmation import decision_texts
from adk_confirm.bot.confirmation.confirmation import AskedCall, Confirmation, Grant, HostRequest, Place
from adk_confirm.bot.confirmation.decision import open_confirmation
from adk_confirm.bot.confirmation.grants import Rights, is_for
from adk_confirm.bot.confirmation.shown import shown_of
from adk_confirm.bot.confirmation.stored_json import check_json
from adk_confirm.bot.confirmation.votes import hypothetical_vote
from adk_confirm.bot.hosts.host import SessionSnapshot
from adk_confirm.bot.policy.approvers import NOBODY, Person, Unresolved
from adk_confirm.bot.policy.policies import (
    CallFacts,
    CallRefusal,
    CallRefusalReason,
    GoverningPolicy,
    Policy,
    may_show_in,
)
from adk_confirm.bot.policy.redaction import Redactor, mask_said, own_words
from adk_confirm.bot.slack.calls import Slack
from adk_confirm.bot.slack.directory import Directory, NotWritable
from adk_confirm.bot.slack.troubles import Gone, SlackTrouble
from adk_confirm.bot.store.grants_in_force import grants_in
from adk_confirm.bot.store.outbox import spoken_events
from adk_confirm.bot.store.repository import Session, find_session, now, read_confirmation, session_confirmations
from adk_confirm.bot.store.requests import Opening, asked_call
from adk_confirm.bot.store.sealed_rows import letter_is_sealed, storable
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.run.arrival import invocation_of
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.jobs import NotNow
from adk_confirm.runtime.store.lease import Lease

T = TypeVar("T")


@dataclass(frozen=True)
class Known:
    """What the store says about a session when its agent asks. `spoken`: the agent's events that are in the outbox, or
    posted. `asked_by`: who asked for each request about which nobody was asked yet."""

    at: datetime
    rows: Sequence[Confirmation]
    spoken: set[str]
    asked_by: Mapping[str, Person | None]
    grants: Sequence[Grant]


NOTHING_NEW = Known(datetime.min.replace(tzinfo=UTC), (), set(), {}, ())
"""If the agent asks nothing new."""


class Intake:
    """Looks up, in Slack and in the store, what a new request needs."""

    def __init__(self, directory: Directory, slack: Slack, rules: Rules) -> None:
        self._directory, self._slack, self._rules = directory, slack, rules

    def decides(self, session: Session, request: HostRequest) -> bool:
        """Whether the policy lets people decide how this long-running operation ends."""
        return self._rules.policies.decides_operation(asked_call(session, request, session.starter).facts())

    async def prepare(self, lease: Lease, session: Session, request: HostRequest, known: Known) -> Opening:
        """Looks up everything that is needed to ask people about a request, or to refuse it at once."""
        asked_by, at = known.asked_by[request.request_id], known.at
        asked = asked_call(session, request, asked_by or NOBODY)
        if asked_by is None:
            return Opening(place=session.place, asked=asked, governs=CallRefusal(CallRefusalReason.NOBODY_ASKED))
        call, asked = asked.facts(), await self._without_hidden(lease, session, asked)
        found = await asyncio.to_thread(_governing_policy, self._rules, request, call, asked, at)
        opening = Opening(place=session.place, asked=asked, governs=found)
        if isinstance(found, CallRefusal):
            return opening
        places = await self._places(session, found, call)
        if isinstance(places, CallRefusal):
            return replace(opening, governs=places)
        return replace(opening, places=places, rights=await self._rights(known, asked, found.policy))

    async def _without_hidden(self, lease: Lease, session: Session, asked: AskedCall) -> AskedCall:
        """The call with the agent's own words masked (its reason for the call, or its question) as the policies of the
        session's earlier calls demand."""
        words = asked.hint if asked.question else ""
        if not asked.why and not words:
            return asked
        rows = await lease.read(session_confirmations, session.key)
        why, words = await mask_said((row.redactor for row in rows), asked.why, words)
        return replace(asked, why=why, hint=words if asked.question else asked.hint)

    async def _rights(self, known: Known, asked: AskedCall, policy: Policy) -> Rights:
        """Looks up the rights of everyone whose grant covers this call, as if they approved it by a vote. They may have
        changed since. If too much time passes until the call is let through, what was looked up does not count, and
        people are asked."""
        at, given = known.at, (one for one in known.grants if is_for(one, asked, policy, known.at))
        givers = dict.fromkeys(giver for grant in given for giver in grant.given_by)
        if not givers:
            return lambda _: None
        row, policies = (await asyncio.to_thread(open_confirmation, "", asked, policy, at)).row, self._rules.policies
        votes = [hypothetical_vote(row, giver, at) for giver in givers]
        found = await asyncio.gather(*(self._directory.facts(row, vote, policies, anew=True) for vote in votes))
        looked_up = {vote.voter: (row, vote, policies, facts) for vote, facts in zip(votes, found, strict=True)}
        return lambda giver: self._directory.fresh_facts(*looked_up[giver]) if giver in looked_up else None

    async def _places(
        self, session: Session, found: GoverningPolicy, call: CallFacts
    ) -> tuple[Place, ...] | CallRefusal:
        channel = found.policy.channel
        if channel is None and session.channel.startswith("D"):
            return await self._dms(session, found, call)
        place = Place(channel=session.channel, thread_ts=None if found.policy.card == "channel" else session.thread_ts)
        if channel is not None and channel != session.channel:
            place = Place(channel=channel)
        shared = _answer_or_wait(await self._directory.shared(place.channel))
        unfit = may_show_in(found.policy, None if isinstance(shared, Unresolved) else shared)
        return (place,) if unfit is None else CallRefusal(unfit, found.index)

    async def _dms(self, session: Session, found: GoverningPolicy, call: CallFacts) -> tuple[Place, ...] | CallRefusal:
        """The approvers' direct messages. Nobody else can see a thread in a direct message, so each approver gets the
        card in their own."""
        people = _answer_or_wait(await self._directory.people(found.policy.approvers, call))
        if isinstance(people, Unresolved | NotWritable):
            why = (
                people.sentence
                if isinstance(people, NotWritable)
                else f"{people.what} could not be looked up: {people.why}."
            )
            return CallRefusal(
                CallRefusalReason.NOBODY_TO_WRITE_TO,
                found.index,
                Redactor(found.policy.redact, call.args).mask_text(why),
            )
        places, gone = await self._reachable(session, people)
        return places or CallRefusal(CallRefusalReason.NOBODY_TO_WRITE_TO, found.index, own_words(str(gone)))

    async def _reachable(
        self, session: Session, people: Sequence[Person]
    ) -> tuple[tuple[Place, ...], SlackTrouble | None]:
        """The places of the people who can be written to, and the error for one who can't. The others are still
        asked."""
        places: list[Place] = []
        gone: SlackTrouble | None = None
        for person in people:
            try:
                channel = await self._slack.open_dm(person.user)
            except Gone as trouble:
                gone = trouble
                continue
            thread = session.thread_ts if channel == session.channel else None
            places.append(Place(channel=channel, thread_ts=thread, person=person))
        return tuple(places), gone


def _answer_or_wait(answer: T) -> T:
    """Returns the answer. Raises `NotNow` if Slack could not be asked yet, so that the request is delayed and not
    refused."""
    if isinstance(answer, Unresolved) and answer.after is not None:
        raise NotNow(answer.after, f"{answer.what} is looked up later: {answer.why}.")
    return answer


def _governing_policy(
    rules: Rules, request: HostRequest, call: CallFacts, asked: AskedCall, at: datetime
) -> GoverningPolicy | CallRefusal:
    """The policy under which people are asked, or why nobody is. Run this in a thread: an agent chooses how much is
    read, which may take seconds."""
    found = _unshowable(request) or rules.policies.resolve(call)
    if isinstance(found, CallRefusal):
        return found
    if request.misfit:
        why = Redactor(found.policy.redact, request.arguments).mask_text(f"{request.misfit:.600}")
        return CallRefusal(CallRefusalReason.MISFIT, found.index, why)
    view = shown_of(open_confirmation("", asked, found.policy, at).row)
    if can_be_shown(view):
        return found
    without = view.preview is not None and can_be_shown(replace(view, preview=None))
    too_long = own_words(decision_texts.PREVIEW_TOO_LONG if without else decision_texts.TOO_LONG)
    return CallRefusal(CallRefusalReason.NOT_TO_BE_SHOWN, found.index, too_long)


def _unshowable(request: HostRequest) -> CallRefusal | None:
    try:
        check_json(request.arguments, "The call")
        check_json(request.payload, "The payload that it asks for")
        check_json(request.payload_schema, "The form that it asks for")
        check_json(request.tool_schema, "The tool's schema")
        check_json(request.preview, "What it would do")
        check_json(request.approved_preview, "What was approved")
    except Invalid as error:
        return CallRefusal(CallRefusalReason.NOT_TO_BE_SHOWN, detail=own_words(str(error)))
    return None


def read_known(tx: Tx, session: Session, look: SessionSnapshot) -> Known:
    rows = session_confirmations(tx, session.key)
    known = {row.asked.request_id for row in rows}
    new = [request for request in look.open_requests if request.request_id not in known]
    # Each request's invocation, and if an answer began that, the invocation whose request was answered.
    turns = {one.request_id: (one.invocation_id, look.origins.get(one.invocation_id, "")) for one in new}
    asked_by = {request: who_asked(tx, session, began) for request, began in turns.items()}
    return Known(now(tx), rows, spoken_events(tx, session.key), asked_by, grants_in(tx, session.key) if new else ())


def who_asked(tx: Tx, session: Session, turns: Iterable[str]) -> Person | None:
    """The person whose message, or whose call's answer, began one of these invocations, as we noted it. In our runtime
    the message's own mark says it. None if nobody's did: whoever speaks next did not ask for it."""
    letters = "SELECT * FROM bot_mail WHERE session = :key AND (kind = 'words' OR turn IS NOT NULL) ORDER BY id"
    began = [turn for turn in turns if turn]
    for one in tx.all(letters, key=session.key):
        noted = json.loads(one.turn or "[]")
        begins = invocation_of(session.session, one.mark) in began or any(storable(turn) in noted for turn in began)
        if begins and letter_is_sealed(tx, one):
            row = read_confirmation(tx, one.confirmation) if one.confirmation else None
            asker = _speaker(tx, session, one.person) if one.person else row.asked.asked_by if row else None
            if asker is not None:
                return asker
    return None


def _speaker(tx: Tx, session: Session, user: str) -> Person:
    """Finds the person for a user id. A letter stores only the user; in a channel shared between companies they may be
    from another workspace."""
    known = (find_session(tx, session.key) or session).speakers
    own = Person(session.team, user)
    return own if own in known else next((one for one in known if one.user == user), own)
