"""Finds what a person's Home tab and list show: what they may decide, what they asked for and decided, the grants they
gave.

The store knows for which policy entries something waits, and Slack knows who is behind them. `authorise` decides about
each listed call, as it does about each vote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from adk_confirm.blocks.home import ASKED, DECIDED, WAITING, HomeView
from adk_confirm.blocks.shown import Shown
from adk_confirm.bot.config.settings import Rules
from adk_confirm.bot.confirmation.authorise import Permission, Reason, Refusal, authorise
from adk_confirm.bot.confirmation.confirmation import Confirmation, Grant, Seat, State, VoteKind
from adk_confirm.bot.confirmation.shown import epoch, grant_view, shown_of
from adk_confirm.bot.confirmation.votes import claim_of, hypothetical_vote
from adk_confirm.bot.policy.approvers import ApproverKind, Person, Unresolved, parse_approver
from adk_confirm.bot.policy.policies import CallFacts
from adk_confirm.bot.slack.calls import Slack
from adk_confirm.bot.slack.directory import Directory
from adk_confirm.bot.slack.troubles import SlackTrouble
from adk_confirm.bot.store import waiting_index
from adk_confirm.bot.store.grants_in_force import grants_by, uses_of
from adk_confirm.bot.store.letters import read_pause
from adk_confirm.bot.store.repository import chain_of, find_session, now
from adk_confirm.runtime.store.database import Database, Tx

LATELY = timedelta(days=7)
PAGE, PAGES = 40, 5
"""Rows of a page, and how many pages are read to find `WAITING` that the reader may decide. The rest is counted."""


@dataclass(frozen=True)
class ComposedTab:
    """A tab to publish. `final`: all lookups are done, so only an event can change the view."""

    view: HomeView
    final: bool


@dataclass(frozen=True)
class _Found:
    rows: tuple[Confirmation, ...] = ()
    more: int = 0
    at: int = 0
    unsure: bool = False  # of some calls it could not be looked up whether they are the reader's


@dataclass(frozen=True)
class _Page:
    """A page of what may be for somebody: rows, and who spoke in their sessions, all from one moment."""

    places: list[waiting_index.ListPosition]
    rows: list[tuple[Confirmation, frozenset[Person]]]
    at: datetime


class HomeQuery:
    def __init__(self, database: Database, slack: Slack, directory: Directory, rules: Rules) -> None:
        self._database, self._slack, self._directory, self._rules = database, slack, directory, rules

    async def home(self, reader: Seat, version: int) -> ComposedTab:
        """The Home tab."""
        names, unknown = await self._names(reader)
        mine = await self._may_decide(reader, names)
        asked = await self._database.read(_own_requests, reader.person)
        voted = await self._database.read(_decided, reader.person)
        given = await self._database.read(_grants, reader.person, self._rules.policies.fingerprints)
        stopped = await self._database.read(read_pause) is not None
        lists = (mine.rows, asked.rows, voted)
        waiting, own, decided = await asyncio.gather(*(self._cards(reader, rows) for rows in lists))
        threads = await asyncio.gather(*(self._permalink(*thread) for _, _, thread in given))
        grants = tuple(
            replace(grant_view(grant, row, link), channel=channel if channel[:1] in ("C", "G") else None)
            for (grant, row, (channel, _)), link in zip(given, threads, strict=True)
        )
        view = HomeView(
            version=version,
            reader=reader.person.user,
            now=mine.at,
            waiting=waiting,
            asked=own,
            decided=decided,
            grants=grants,
            more_waiting=mine.more,
            more_asked=asked.more,
            paused=stopped,
            unsure=mine.unsure or bool(unknown),
        )
        return ComposedTab(view, final=all(one.after is None for one in unknown))

    async def approvals_list(self, reader: Seat, version: int) -> HomeView:
        """The content of the list that `/approvals` shows in a channel."""
        names, unknown = await self._names(reader)
        mine = await self._may_decide(reader, names)
        here = await self._database.read(
            _others_in_channel, reader.team, reader.channel, frozenset(row.id for row in mine.rows)
        )
        waiting, others = await asyncio.gather(self._cards(reader, mine.rows), self._cards(reader, here.rows))
        return HomeView(
            version=version,
            now=mine.at,
            waiting=waiting,
            here=others,
            more_waiting=mine.more,
            more_here=here.more,
            paused=await self._database.read(read_pause) is not None,
            unsure=mine.unsure or bool(unknown),
        )

    # Who may decide what

    async def _names(self, reader: Seat) -> tuple[frozenset[str], list[Unresolved]]:
        """The policy entries that stand for this person now, and those that could not be looked up. What waits for such
        an entry is not listed, but its cards exist."""
        entries = [
            parse_approver(name) for name in await self._database.read(waiting_index.entries_in_use, reader.team)
        ]
        looked_up = [entry for entry in entries if entry.kind is not ApproverKind.PYTHON]
        anybody = CallFacts(tool="", args={}, team=reader.team)
        members = await asyncio.gather(*(self._directory.members(entry, anybody) for entry in looked_up))
        mine = {
            str(entry)
            for entry, people in zip(looked_up, members, strict=True)
            if isinstance(people, frozenset) and reader.person in people
        }
        functions = {str(entry) for entry in entries if entry.kind is ApproverKind.PYTHON}  # functions judge calls
        unknown = [people for people in members if isinstance(people, Unresolved)]
        return frozenset(mine | functions | {f"{ApproverKind.USER}:{reader.person.user}"}), unknown

    async def _may_decide(self, reader: Seat, names: frozenset[str]) -> _Found:
        found: list[Confirmation] = []
        after: waiting_index.ListPosition | None = None
        unsure = False
        for _ in range(PAGES):
            page = await self._database.read(_page, reader.team, names, after)
            permitted = await asyncio.gather(
                *(self._vote_would_count(reader, row, speakers, page.at) for row, speakers in page.rows)
            )
            unsure = unsure or None in permitted
            for (row, speakers), yes in zip(page.rows, permitted, strict=True):
                found += [row.heard(speakers)] if yes else []
                if len(found) == WAITING:
                    break
            if len(found) == WAITING:
                after = waiting_index.due(found[-1]).timestamp(), found[-1].id
                break
            if len(page.places) < PAGE:
                return _Found(tuple(found), at=epoch(page.at), unsure=unsure)
            after = page.places[-1]
        assert after is not None
        certain = frozenset(name for name in names if not name.startswith(f"{ApproverKind.PYTHON}:"))
        more = await self._database.read(waiting_index.count_after, reader.team, certain, after)
        return _Found(tuple(found), more, epoch(page.at), unsure)

    async def waiting(
        self, reader: Seat, calls: Sequence[str], kind: VoteKind = VoteKind.APPROVE, *, silent: bool = False
    ) -> tuple[Shown, ...]:
        """Those of these calls on which this person's vote would count now, or, for a denial, which they could withdraw
        instead. `silent`: those on which it would count if they had not spoken to the agent."""
        page = await self._database.read(_waiting, calls)
        found: list[Confirmation] = []
        for row, speakers in page.rows:
            spoke = frozenset({reader.person}) if silent else frozenset()
            if (silent and row.policy.allow_requester is not False) or row.state is not State.WAITING:
                continue
            own = kind is VoteKind.DENY and row.asked.asked_by.is_also(reader.person)
            if own or await self._vote_would_count(reader, row, speakers - spoke, page.at, kind):
                found.append(row.heard(speakers))
        return await self._cards(reader, found)

    async def _vote_would_count(
        self,
        reader: Seat,
        row: Confirmation,
        speakers: frozenset[Person],
        at: datetime,
        kind: VoteKind = VoteKind.APPROVE,
    ) -> bool | None:
        """Whether this person's vote would count now and is still needed. None if that could not be looked up."""
        kind = VoteKind.HAPPENED if row.unknown else kind
        given = row.standing_votes(VoteKind.RUN_AGAIN if row.unknown else kind)
        if any(vote.voter.is_also(reader.person) for vote in (*given, *row.pending_votes)):
            return False
        if not row.unknown and at >= row.deadline:
            return False
        vote = hypothetical_vote(row, reader.person, at, kind)
        facts = await self._directory.facts(row, vote, self._rules.policies, speakers, listing=True)
        ruling = authorise(row.policy, claim_of(row, vote), facts)
        unsure = isinstance(ruling, Refusal) and ruling.reason is Reason.CANNOT_ASK
        return None if unsure else isinstance(ruling, Permission)

    # Links

    async def _cards(self, reader: Seat, rows: Sequence[Confirmation]) -> tuple[Shown, ...]:
        links = await asyncio.gather(*(self._link(reader, row) for row in rows))
        pairs = zip(rows, links, strict=True)
        return await asyncio.to_thread(lambda: tuple(shown_of(row, card_link=link) for row, link in pairs))

    async def _link(self, reader: Seat, row: Confirmation) -> str | None:
        """A link to a card that this reader can see: their own, or the one in a channel."""
        cards = [place for place in row.places if place.channel and place.ts is not None and not place.pointer]
        own = [place for place in cards if place.person == reader.person]
        place = next((place for place in (*own, *cards) if place.person in (reader.person, None)), None)
        return await self._permalink(place.channel, place.ts) if place else None

    async def _permalink(self, channel: str, ts: str | None) -> str | None:
        try:
            return await self._slack.permalink(channel, ts) if ts else None
        except SlackTrouble:
            return None  # deleted, or Slack is busy: list it without a link


# Transactions


def _page(tx: Tx, team: str, names: frozenset[str], after: waiting_index.ListPosition | None) -> _Page:
    places = waiting_index.page(tx, team, names, after, PAGE)
    return replace(_waiting(tx, [id_ for _, id_ in places]), places=places)


def _waiting(tx: Tx, calls: Sequence[str]) -> _Page:
    rows = waiting_index.read_rows(tx, calls)
    sessions = {key: find_session(tx, key) for key in {chain_of(row.asked.session) for row in rows}}
    speakers = {key: session.speakers for key, session in sessions.items() if session is not None}
    met = [(row, speakers.get(chain_of(row.asked.session), frozenset())) for row in rows]
    return _Page([], met, now(tx))


def _own_requests(tx: Tx, person: Person) -> _Found:
    """What waits, the most urgent first, then what was decided recently."""
    names = {waiting_index.asker(person)}
    page = waiting_index.page(tx, person.team, names, None, ASKED)
    more = waiting_index.count_after(tx, person.team, names, page[-1]) if len(page) == ASKED else 0
    rows = waiting_index.read_rows(tx, [id_ for _, id_ in page])
    since = tx.now() - LATELY.total_seconds()
    known = {row.id for row in rows}
    lately = [row for row in waiting_index.asked_lately(tx, person, since, ASKED) if row.id not in known]
    return _Found((*rows, *lately[: ASKED - len(rows)]), more)


def _decided(tx: Tx, person: Person) -> list[Confirmation]:
    return waiting_index.decided_lately(tx, person, tx.now() - LATELY.total_seconds(), DECIDED)


def _others_in_channel(tx: Tx, team: str, channel: str, mine: frozenset[str]) -> _Found:
    """What else waits in a channel."""
    names = {f"channel:{channel}"}
    page = waiting_index.page(tx, team, names, None, WAITING + len(mine))
    others = [position for position in page if position[1] not in mine][:WAITING]
    more = waiting_index.count_after(tx, team, names, others[-1]) if len(others) == WAITING else 0
    return _Found(tuple(waiting_index.read_rows(tx, [id_ for _, id_ in others])), more)


def _grants(tx: Tx, person: Person, rules: Collection[str]) -> list[tuple[Grant, Confirmation, tuple[str, str]]]:
    """The grants that somebody gave under one of the file's policies, whose fingerprints are the `rules`, each with its
    confirmation and where its thread is."""
    found = (grant for grant in grants_by(tx, person) if grant.policy in rules)
    given = [grant if grant.uses else replace(grant, used=uses_of(tx, grant) or 0) for grant in found]
    rows = {row.id: row for row in waiting_index.read_rows(tx, [grant.id for grant in given])}
    sessions = {grant.id: find_session(tx, chain_of(grant.session)) for grant in given}
    place = {id_: (session.channel, session.thread_ts) if session else ("", "") for id_, session in sessions.items()}
    return [(grant, rows[grant.id], place[grant.id]) for grant in given]
