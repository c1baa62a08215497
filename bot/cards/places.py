"""Where a confirmation's cards belong: the places of its row, and those that are added later."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from adk_confirm.bot.confirmation.confirmation import Confirmation, Place, State
from adk_confirm.bot.policy.approvers import Approver, ApproverKind, Person, Unresolved
from adk_confirm.bot.policy.policies import may_decide
from adk_confirm.bot.slack.calls import Slack
from adk_confirm.bot.slack.directory import Directory, NotWritable
from adk_confirm.bot.slack.troubles import Gone, Later, SlackTrouble
from adk_confirm.bot.store.repository import Session

log = logging.getLogger(__name__)

_AGAIN = 30.0
"""Seconds until Slack is asked again who is behind a policy's entries."""


def is_note(place: Place) -> bool:
    """Whether the place is a direct message that links to the card. It is deleted when the call is decided."""
    return place.pointer and place.person is not None


async def accounts_of(row: Confirmation, directory: Directory) -> dict[str, str]:
    """The users behind the policy's addresses, as far as Slack knows them."""
    found: dict[str, str] = {}
    for entry in (*row.policy.approvers, *row.policy.escalate_to, *row.policy.notify):
        if entry.kind is ApproverKind.EMAIL:
            members = await directory.members(entry, row.asked.facts(row.revision.arguments))
            if isinstance(members, frozenset) and members:
                found[entry.value] = min(members).user
    return found


async def silenced(row: Confirmation, session: Session, directory: Directory) -> tuple[str, ...]:
    """The approvers who can't approve, because they spoke to the agent."""
    spoke, found = row.heard(session.speakers).silent, set[str]()
    for entry in may_decide(row.policy, row.escalated) if spoke else ():
        members = await directory.members(entry, row.asked.facts(row.revision.arguments), listing=True)
        found |= {one.user for one in members} if isinstance(members, frozenset) else set()
    return tuple(sorted(found & spoke))


class CardPlaces:
    def __init__(self, slack: Slack, directory: Directory) -> None:
        self._slack, self._directory = slack, directory

    async def of(self, row: Confirmation, session: Session) -> tuple[tuple[Place, ...], SlackTrouble | None]:
        """All places of the cards, and the error for a place that could not be found."""
        places = [place for place in row.places if place.channel]
        unknown = [place for place in row.places if not place.channel]
        if places and not any(
            (place.channel, place.thread_ts) == (session.channel, session.thread_ts) for place in places
        ):
            places.append(Place(channel=session.channel, thread_ts=session.thread_ts, pointer=True))
        trouble: SlackTrouble | None = None
        if row.escalated and row.state is State.WAITING and row.policy.escalate_to:
            more, trouble = await self._direct_messages(row, row.policy.escalate_to, "escalation", notes=False)
            places += more
        if row.policy.dm and row.state is State.WAITING and not any(map(is_note, places)):
            notes, unsent = await self._direct_messages(row, row.policy.approvers, "direct messages", notes=True)
            places += [note for note in notes if note.channel not in {place.channel for place in places}]
            trouble = trouble or unsent
        # A place without a channel keeps the row due until `escalate_to` is looked up, or the call is decided.
        if trouble is not None:
            unknown = [Place(channel="")]
        return (
            *places,
            *(replace(place, drawn_version=row.version if trouble is None else 0) for place in unknown),
        ), trouble

    async def _direct_messages(
        self, row: Confirmation, entries: Sequence[Approver], what: str, *, notes: bool
    ) -> tuple[list[Place], SlackTrouble | None]:
        """A place for each of these people. `notes`: each is a note that links to the card, and the asker needs none.
        Otherwise each is a card, for people who can't see one in a channel."""
        people = await self._directory.people(entries, row.asked.facts(row.revision.arguments))
        if isinstance(people, Unresolved):
            return [], Later(what, _AGAIN, f"{people.what}: {people.why}")
        if isinstance(people, NotWritable):
            if notes:
                log.warning("no direct messages for confirmation %s: %s", row.id, people.sentence)
            return [], None
        places: list[Place] = []
        trouble: SlackTrouble | None = None
        for person in people:
            try:
                if person.is_also(row.asked.asked_by) if notes else await self._is_reached(row, person):
                    continue
                channel = await self._slack.open_dm(person.user)
                places.append(Place(channel=channel, person=person, pointer=notes))
            except Gone:
                continue  # this account can't be written to, but the others can
            except SlackTrouble as error:
                trouble = trouble or error
        return places, trouble

    async def _is_reached(self, row: Confirmation, person: Person) -> bool:
        if any(place.person == person and place.channel for place in row.places):
            return True
        cards = [place for place in row.places if place.channel and not place.pointer]
        channels = [place.channel for place in cards if place.person is None]
        for channel in dict.fromkeys(channels):
            if not channel.startswith("D") and await self._directory.can_see(channel, person.user):
                return True
        return False
