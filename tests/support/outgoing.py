"""The outgoing half of the Slack app alone: a desk, its cards in the local Slack, and a clock that the test moves.

async with outgoing() as out:
    out.open(make_policy())                # ann asks in #deploys, and what follows is owed
    await out.drawn()                      # as often as the worker would have to try
    out.desk.approve(ANNA); await out.drawn()
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from aiohttp import ClientSession
from slack_sdk.web.async_client import AsyncWebClient

from adk_confirm.bot.audit.ledger import Head, LedgerLine, append
from adk_confirm.bot.cards.draw import PLAIN, CardContext, Cards
from adk_confirm.bot.cards.thread_posts import Thread
from adk_confirm.bot.config.settings import Rules
from adk_confirm.bot.confirmation.confirmation import Confirmation, Place
from adk_confirm.bot.confirmation.states import Step
from adk_confirm.bot.confirmation.stored_json import from_json, step_content, to_json
from adk_confirm.bot.policy.policies import Policies, Policy
from adk_confirm.bot.slack.calls import CallLimits, Slack, slack_session
from adk_confirm.bot.slack.directory import Directory
from adk_confirm.bot.slack.troubles import Later, SlackTrouble, Unsure
from adk_confirm.bot.store.open import open_store
from adk_confirm.bot.store.repository import Session
from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.lease import Lease
from adk_confirm.runtime.wire import SessionId
from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.server.server import FakeSlack
from adk_confirm.sandbox.workspace.records import Channel
from tests.support.deciding import ASKER, TEAM, Desk, make_asked, make_policy
from tests.support.stores import KEYS, SECRET, a_lease, temporary_store

WORDS = "deploy checkout 2.4.1"

NO_RULES = Rules(Policies())
_NAMED = [
    f"python:tests.support.python_approvers:{name}" for name in ("on_call", "on_call_later", "by_size", "busybody")
]
_WITH_FUNCTIONS = Rules(Policies.of(make_policy(approvers=[*_NAMED, "python:my.rota:on_call"])))


@dataclass
class Outgoing:
    slack: FakeSlack
    database: Database
    lease: Lease
    api: Slack
    directory: Directory
    cards: Cards
    writer: Thread
    waits: list[float]
    ann: Person
    ben: Person
    lead: Person
    asker: Person
    deploys: Channel
    thread: Seen
    session: Session
    desk: Desk = field(init=False)
    troubles: list[SlackTrouble] = field(default_factory=list)

    def open(self, policy: Policy, places: Sequence[Place] | None = None, **asked: object) -> Confirmation:
        """Opens a request, as it is right after the desk has opened it."""
        self.desk = Desk(policy, make_asked(**{"channel": self.deploys.id, **asked}))  # type: ignore[arg-type]  # fields of Asked
        here = (Place(channel=self.session.channel, thread_ts=self.session.thread_ts),)
        self.desk.row = replace(self.desk.row, places=here if places is None else tuple(places))
        return self.desk.row

    async def drawn(self, *, tries: int = 8, around: CardContext = PLAIN) -> Confirmation:
        """Does the worker's part: draws until nothing is left, and stores the results. An error costs one attempt."""
        for _ in range(tries):
            stored = from_json(Confirmation, f"{to_json(self.desk.row)} ")  # as if another process had stored it
            row = replace(stored, places=self.desk.row.places)
            if not any(place.drawn_version < row.face for place in row.places):
                return row
            try:
                places = await self.cards.draw(self.lease, row, self.session, around)
            except SlackTrouble as trouble:
                self.troubles.append(trouble)
                if isinstance(trouble, Unsure):
                    self.in_doubt()
                self.slack.clock.advance(trouble.after if isinstance(trouble, Later) else 1.0)
            else:
                self.desk.row = replace(self.desk.row, places=places)
        raise AssertionError(f"It was not drawn in {tries} tries: {self.troubles}")

    def in_doubt(self) -> None:
        """What was sent may be done, or be done later. Slack's messages are looked for from the request on, and the
        desk lives in another year than Slack."""
        asked_at = datetime.fromtimestamp(self.slack.clock.now(), UTC)
        self.desk.row = replace(self.desk.row, doubt=2, asked_at=asked_at)

    def cards_in(self, place: Channel | None = None, person: Person | None = None) -> list[Seen]:
        """The cards that somebody sees in a channel."""
        seen = (person or self.ann).messages(place or self.deploys)
        return [one for one in seen if (one.message.metadata or {}).get("event_type") == "adk_confirmation_card"]

    @property
    def card(self) -> Seen:
        """The only card."""
        (card,) = self.cards_in()
        return card

    def lines(self) -> list[LedgerLine]:
        """All of the desk's ledger lines so far."""
        return lines_of(self.session, self.desk.steps, self.desk.asked.tool)

    def posted(self) -> list[str]:
        """What the app says in the thread besides cards, as the asker reads it."""
        seen = self.asker.messages(self.deploys, thread=self.thread)
        cards = {card.ts for card in self.cards_in()}
        return [one.text for one in seen if one.author == "adk-confirm" and one.ts not in cards]

    @contextmanager
    def impatient(self) -> Iterator[None]:
        """Gives up soon on questions that Slack will not answer. All others have much time."""
        questions = self.directory._lookups
        patience, questions._patience = questions._patience, 0.3
        yield
        questions._patience = patience


@asynccontextmanager
async def outgoing(limits: CallLimits | None = None) -> AsyncIterator[Outgoing]:
    with temporary_store() as url:
        database = await open_store(url, SECRET)
        try:
            async with FakeSlack(our_app()) as slack, slack_session() as session:
                yield await _set_up(slack, database, session, limits or CallLimits(time_limit=10.0))
        finally:
            await database.close()


async def _set_up(slack: FakeSlack, database: Database, session: ClientSession, limits: CallLimits) -> Outgoing:
    waits = list[float]()

    async def pause(seconds: float) -> None:
        waits.append(seconds)
        slack.clock.advance(seconds)

    client = AsyncWebClient(slack.bot_token, base_url=slack.url)
    api = Slack(client, limits=limits, session=session, clock=slack.clock.now, pause=pause)
    directory = Directory(api, _WITH_FUNCTIONS, patience=15.0)
    asker, ann, ben, lead = (
        slack.person(name, id=user)
        for name, user in (("dana", "U0ASKER"), ("anna", "U0ANNA"), ("ben", "U0BEN"), ("lea", "U0LEAD"))
    )
    deploys = slack.channel("deploys", asker, ann, ben, id="C0DEPLOYS")
    thread = await asker.says(WORDS, deploys)
    slack_thread = a_session(deploys.id, thread.ts)
    cards, lease = Cards(api, directory), await a_lease(database)
    writer = Thread(api, directory)
    return Outgoing(
        slack,
        database,
        lease,
        api,
        directory,
        cards,
        writer,
        waits,
        ann,
        ben,
        lead,
        asker,
        deploys,
        thread,
        slack_thread,
    )


def a_session(channel: str, thread_ts: str) -> Session:
    """A session, as it is stored for somebody who began a thread there."""
    key = SessionId("oncall", f"slack-{TEAM}-{ASKER.user}", f"slack-{TEAM}-{channel}-{thread_ts}")
    return Session(
        key=f"{key.app}/{key.user_id}/{key.id}",
        session=key,
        team=TEAM,
        channel=channel,
        thread_ts=thread_ts,
        starter=ASKER,
        speakers=frozenset({ASKER}),
        present=frozenset({ASKER}),
        told_seq=0,
    )


def lines_of(session: Session, steps: Sequence[Step], tool: str = "deploy") -> list[LedgerLine]:
    """Ledger lines for these steps of a session."""
    lines: list[LedgerLine] = []
    head = Head()
    for step in steps:
        content = step_content(step)
        line = append(
            head, session.key, step.kind, content, KEYS, at=step.at, salt="salt", confirmation="k1", tool=tool
        )
        lines.append(line)
        head = line.head
    return lines
