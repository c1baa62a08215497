"""A store with a team's work in it, written by the desk's own transactions, and the command line beside it.

async with backoffice(database_url, tmp_path, monkeypatch, capsys) as at:
    await at.hears("deploy it")
    deploy = await at.asks("deploy", {"version": "2.4.1"})
    await at.vote(deploy, ANNA)
    said = await at.command("audit", "show", deploy)
    assert said.code == 0
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from adk_confirm.bot.cli import main
from adk_confirm.bot.config.settings import Rules, load_settings
from adk_confirm.bot.confirmation.authorise import Facts
from adk_confirm.bot.confirmation.confirmation import (
    Ask,
    Confirmation,
    Edit,
    HostRequest,
    OutcomeKind,
    Place,
    Vote,
    VoteKind,
)
from adk_confirm.bot.confirmation.states import Delivery
from adk_confirm.bot.confirmation.stored_json import from_json
from adk_confirm.bot.policy.approvers import Account, Approver, Members, Person, Unresolved
from adk_confirm.bot.policy.policies import CallFacts, Policies
from adk_confirm.bot.store.cast_vote import CastResult, SubmittedVote, cast
from adk_confirm.bot.store.letters import (
    SlackMessage,
    letters_done,
    read_mail,
    session_done,
    store_message,
)
from adk_confirm.bot.store.open import open_store
from adk_confirm.bot.store.outbox import ThreadDone, note_and_look, posted_up_to
from adk_confirm.bot.store.repository import read_confirmation, read_session, session_confirmations
from adk_confirm.bot.store.requests import Opening, asked_call, open_request
from adk_confirm.bot.store.transactions import follow_outcome, hand_over, save_drawn
from adk_confirm.runtime.jsontypes import Json, JsonObject
from adk_confirm.runtime.store.database import Database, Tx
from tests.support.deciding import ASKER, TEAM, call_that_became, full_member
from tests.support.stores import SECRET

POLICIES = """
[[policy]]
tools = ["deploy*"]
approvers = ["user:U0ANNA", "user:U0BEN"]
quorum = 2
redact = ["token"]
[[policy]]
tools = ["*"]
approvers = ["user:U0ANNA"]
"""

_numbers = count(1)


@dataclass(frozen=True)
class CommandOutput:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@dataclass
class Office:
    """Answers questions about people: everybody is a full member, and the test fills the groups."""

    members: dict[Approver, Members] = field(default_factory=dict)
    silent: bool = False

    async def facts(
        self, row: Confirmation, vote: Vote, policies: Policies, speakers: frozenset[Person] = frozenset()
    ) -> Facts:
        account: Account | Unresolved = full_member(vote.voter)
        if self.silent:
            account = Unresolved(vote.voter.user, "Slack did not answer within 30 s")
        barred = policies.barred(row.asked.facts())
        others = {vote.voter: full_member(vote.voter) for vote in row.votes}
        return Facts(account=account, others=others, members=self.members, barred=barred, speakers=speakers)

    def fresh_facts(self, row: Confirmation, vote: Vote, policies: Policies, asked: Facts) -> Facts | None:  # noqa: ARG002
        return asked


@dataclass
class Backoffice:
    url: str
    directory: Path
    database: Database
    clock: Clock
    capsys: pytest.CaptureFixture[str]
    office: Office = field(default_factory=Office)
    rules: Rules = field(init=False)
    key: str = ""

    def __post_init__(self) -> None:
        self.policies(POLICIES)

    def policies(self, text: str) -> None:
        """Changes the policies in the file. The service keeps those with which it started."""
        (self.directory / "adk-confirm.toml").write_text(f'[store]\nurl = "{self.url}"\n{text}')
        self.rules = Rules(_policies(self.directory))

    # What people and agents do

    async def hears(self, text: str, who: Person = ASKER, thread: str = "1.1", app: str = "oncall") -> str:
        heard = SlackMessage(
            app=app, team=TEAM, channel="C0DEPLOYS", thread_ts=thread, ts=f"{next(_numbers)}.5", person=who, text=text
        )
        await self.database.run(store_message, heard)
        self.key = await self.database.read(lambda tx: _session_of(tx, heard.id))
        return heard.id

    async def asks(
        self,
        tool: str = "deploy",
        arguments: JsonObject | None = None,
        rights: Mapping[Person, Facts] | None = None,
        **more: object,
    ) -> str:
        """Puts the agent's call before people. Returns its confirmation's id. `rights`: of those who gave a grant."""
        row = await self._open(tool, {"version": "2.4.1"} if arguments is None else arguments, rights, **more)
        assert row is not None
        return row.id

    async def refuses(self, tool: str, arguments: JsonObject) -> str:
        """Refuses the call, so that nobody is asked. Returns what the agent hears."""
        assert await self._open(tool, arguments) is None
        found = "SELECT body FROM bot_mail WHERE kind = 'refusal' ORDER BY id DESC LIMIT 1"
        return str(await self.database.read(lambda tx: tx.value(found)))

    async def _open(
        self, tool: str, arguments: JsonObject, rights: Mapping[Person, Facts] | None = None, **more: object
    ) -> Confirmation | None:
        if not self.key:
            await self.hears(f"please {tool}")
        return await self.opens(self.key, tool, arguments, rights, **more)

    async def opens(
        self,
        key: str,
        tool: str = "deploy",
        arguments: JsonObject | None = None,
        rights: Mapping[Person, Facts] | None = None,
        **more: object,
    ) -> Confirmation | None:
        """Puts a call of this session before people, or refuses it."""
        number = next(_numbers)
        request = HostRequest(
            request_id=f"r{number}",
            call_id=f"c{number}",
            tool=tool,
            arguments={} if arguments is None else arguments,
            agent="oncall",
            invocation_id=f"e{number}",
            hint="Deploy it?",
        )
        request = replace(request, **more)  # type: ignore[arg-type]  # the fields of HostRequest, named by the test
        facts = CallFacts(tool=tool, args=request.arguments, session=key, asker=ASKER.user)
        call = replace(facts, payload=request.payload, question=request.ask is Ask.INPUT)
        place = Place(channel="C0DEPLOYS", thread_ts="1.1", ts="9.9")
        governs = self.rules.policies.resolve(call)
        session = await self.database.read(read_session, key)
        opening = Opening(
            place=session.place, asked=asked_call(session, request, ASKER), governs=governs, places=(place,)
        )
        opening = replace(opening, rights=(rights or {}).get)
        return await self.database.run(open_request, key, opening, self.rules.limits)

    async def vote(
        self,
        confirmation: str,
        who: Person,
        kind: VoteKind = VoteKind.APPROVE,
        *,
        reason: str | None = None,
        facts: Facts | None = None,
        stored_only: bool = False,
        payload: Json = None,
        **edit: Json,
    ) -> CastResult:
        row = await self.row(confirmation)
        ballot = SubmittedVote(
            id=f"v{next(_numbers)}",
            confirmation=confirmation,
            revision=row.revision.number,
            kind=kind,
            voter=who,
            reason=reason,
            edit=Edit(edit, payload) if edit or payload is not None else None,
        )
        others = {vote.voter: full_member(vote.voter) for vote in row.votes}
        found = facts or Facts(account=full_member(who), others=others, members=self.office.members)
        known = None if stored_only else found
        return await self.database.run(cast, ballot, self.rules.policies, lambda *_: known)

    async def runs(self, confirmation: str, text: str = '{"ok":true}', kind: OutcomeKind = OutcomeKind.DONE) -> None:
        """Lets the approved call begin and end."""
        body = await self.database.read(lambda tx: _answer(tx, confirmation))
        await self.database.run(hand_over, confirmation, from_json(Delivery, body))
        await self.database.run(follow_outcome, confirmation, call_that_became(OutcomeKind.RUNNING))
        if kind is not OutcomeKind.RUNNING:
            await self.database.run(follow_outcome, confirmation, call_that_became(kind, text))

    async def is_posted(self) -> None:
        """Marks everything as delivered: the agent has its letters, the thread its lines, the cards are up to date."""
        await self.database.run(_mark_delivered, self.key)
        await self.is_drawn()

    async def is_drawn(self) -> None:
        for row in await self.database.read(session_confirmations, self.key):
            places = tuple(replace(place, drawn_version=row.face) for place in row.places)
            await self.database.run(save_drawn, row.id, places)
            await self.database.run(save_drawn, row.id, ())

    async def row(self, confirmation: str) -> Confirmation:
        row = await self.database.read(read_confirmation, confirmation)
        assert row is not None
        return row

    async def lines(self, chain: str | None = None) -> list[Any]:
        """The kind and content of each line, in order."""
        found = "SELECT kind, content FROM bot_ledger WHERE chain = :chain ORDER BY seq"
        return await self.database.read(lambda tx: tx.all(found, chain=chain or self.key))

    # What the operator does

    async def command(self, *arguments: str) -> CommandOutput:
        """Runs a command beside whoever has the store open, as from another shell."""
        self.capsys.readouterr()
        code = await asyncio.to_thread(main, list(arguments), self.clock)
        said = self.capsys.readouterr()
        assert "Traceback" not in said.err
        return CommandOutput(code, said.out, said.err)

    async def refusal(self, *arguments: str) -> str:
        """The error message of a command that fails."""
        said = await self.command(*arguments)
        assert (said.code, said.out) == (2, "")
        return said.err.partition(": ")[2].strip()

    async def reopen(self) -> None:
        self.database = await open_store(self.url, SECRET, self.clock)


class Clock:
    """The time in the store. It begins with the machine's time, and passes when the test says so."""

    def __init__(self) -> None:
        self.at = float(int(time.time()))

    def __call__(self) -> float:
        return self.at

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def passes(self, **length: float) -> None:
        self.at += timedelta(**length).total_seconds()


@asynccontextmanager
async def backoffice(
    url: str, directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Backoffice]:
    monkeypatch.chdir(directory)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("DATABASE_URL", "SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET", "SLACK_API_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ADK_CONFIRM_SECRET", SECRET)
    clock = Clock()
    at = Backoffice(url, directory, await open_store(url, SECRET, clock), clock, capsys)
    try:
        yield at
    finally:
        await at.database.close()


def _policies(directory: Path) -> Policies:
    return load_settings(directory / "adk-confirm.toml", {"ADK_CONFIRM_SECRET": SECRET}).policies


def _session_of(tx: Tx, session: str) -> str:
    key: str = tx.value("SELECT key FROM bot_sessions WHERE id = :id", id=session)
    return key


def _answer(tx: Tx, confirmation: str) -> str:
    body: str = tx.value("SELECT body FROM bot_mail WHERE confirmation = :id ORDER BY id DESC LIMIT 1", id=confirmation)
    return body


def _mark_delivered(tx: Tx, key: str) -> None:
    while letters := read_mail(tx, key, alone=True).letters:
        letters_done(tx, key, letters)
    posted_up_to(tx, key, tx.value("SELECT seq FROM bot_chains WHERE chain = :key", key=key) or 0)
    session_done(tx, key)
    note_and_look(tx, key, ThreadDone())
