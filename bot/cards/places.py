"""Where a confirmation's cards are to stand by now: the places of its row, and those that come with time."""

from __future__ import annotations

from dataclasses import replace

from bot.confirmation.model import Confirmation, Place, State
from bot.policy.approvers import ApproverKind, Person, Unresolved
from bot.slack.directory.directory import Directory, NotWritable
from bot.slack.outbound.calls import Workspace
from bot.slack.outbound.client import Sender
from bot.slack.outbound.errors import Gone, Later, SlackTrouble
from bot.store.repository import Session

_AGAIN = 30.0
"""After so long it is asked again who is behind `escalate_to`."""


class Whereabouts:
    def __init__(self, sender: Sender, directory: Directory) -> None:
        self._sender, self._directory = sender, directory

    async def of(self, row: Confirmation, session: Session) -> tuple[tuple[Place, ...], SlackTrouble | None]:
        """All places, and what kept one from being found."""
        places = [place for place in row.places if place.channel]
        unknown = [place for place in row.places if not place.channel]
        if places and not any(
            (place.channel, place.thread_ts) == (session.channel, session.thread_ts) for place in places
        ):
            places.append(Place(channel=session.channel, thread_ts=session.thread_ts, pointer=True))
        trouble: SlackTrouble | None = None
        if row.escalated and row.state is State.WAITING and row.policy.escalate_to:
            more, trouble = await self._escalated(row, Workspace(session.team, session.enterprise))
            places += more
        # A place without a channel keeps the row due until those of `escalate_to` are known, or it is decided.
        if trouble is not None:
            unknown = [Place(channel="")]
        return (
            *places,
            *(replace(place, drawn_version=row.version if trouble is None else 0) for place in unknown),
        ), trouble

    async def accounts(self, row: Confirmation, session: Session) -> dict[str, str]:
        """The users behind the policy's addresses, as far as Slack says."""
        at = Workspace(session.team, session.enterprise)
        found: dict[str, str] = {}
        for entry in (*row.policy.approvers, *row.policy.escalate_to):
            if entry.kind is ApproverKind.EMAIL:
                members = await self._directory.members(entry, at, row.asked.facts(row.revision.arguments))
                if isinstance(members, frozenset) and members:
                    found[entry.value] = min(members).user
        return found

    async def _escalated(self, row: Confirmation, at: Workspace) -> tuple[list[Place], SlackTrouble | None]:
        """A card to each of those who may decide from now on and can't see any that stands in a channel."""
        call = row.asked.facts(row.revision.arguments)
        people = await self._directory.people(row.policy.escalate_to, at, call)
        if isinstance(people, Unresolved):
            return [], Later("escalation", _AGAIN, f"{people.what}: {people.why}")
        if isinstance(people, NotWritable):
            return [], None
        more: list[Place] = []
        trouble: SlackTrouble | None = None
        for person in people:
            try:
                if not await self._reached(row, at, person):
                    channel = await self._sender.open_dm(at, person.user)
                    more.append(Place(channel=channel, person=person))
            except Gone:
                continue  # an account that can't be written to: the others are
            except SlackTrouble as error:
                trouble = trouble or error
        return more, trouble

    async def _reached(self, row: Confirmation, at: Workspace, person: Person) -> bool:
        if any(place.person == person and place.channel for place in row.places):
            return True
        cards = [place for place in row.places if place.channel and not place.pointer]
        channels = [place.channel for place in cards if place.person is None]
        for channel in dict.fromkeys(channels):
            if not channel.startswith("D") and await self._directory.can_see(at, channel, person.user):
                return True
        return False
