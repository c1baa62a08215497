"""Agents of google-adk that need somebody to sign in: with an OAuth provider over HTTP, and with API keys."""

from __future__ import annotations

import io
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from aiohttp import ClientSession
from sqlalchemy import text

from bot.app import running_bot
from bot.operations.pause import pause, resume
from bot.sandbox.people.seen import Modal, Seen, find_control
from runtime.jsontypes import objects
from runtime.store.database import Tx
from runtime.telemetry.logs import JsonFormatter
from tests.support.foreign.alone import ran
from tests.support.foreign.provider import API_KEY, Provider, provider
from tests.support.office import AT_ONCE, Office, configured, office, opening
from tests.support.scraping import get

pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself
pytest.importorskip("google.adk.workflow")

PUBLIC = "http://127.0.0.1:1/at"
POLICY = """
public_url = "http://127.0.0.1:1/at"
[[policy]]
tools = ["read_calendar"]
approvers = ["user:U0BOB"]
expires_after = "1h"
"""
LOCAL = POLICY.replace('public_url = "http://127.0.0.1:1/at"', "")

Opens = Callable[..., AbstractAsyncContextManager[Office]]


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Provider]:
    async with provider() as made:
        monkeypatch.setenv("OAUTH_URL", made.url)
        yield made


@pytest.fixture
def opens(sqlite_url: str, service: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opens:
    return opening("tests.support.foreign.signing_in", POLICY, sqlite_url, tmp_path, monkeypatch)


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    out, root = io.StringIO(), logging.getLogger()
    handler, before = logging.StreamHandler(out), root.level
    handler.setFormatter(JsonFormatter())
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield out
    root.removeHandler(handler)
    root.setLevel(before)


async def asked(at: Office, words: str = "Monday") -> tuple[Seen, Seen]:
    """What ann said, and the card that she got as a direct message."""
    said = await at.ann.says(f"@adk-confirm {words}", at.deploys)
    return said, await at.ann.finds("Sign in for")


def link(seen: Seen) -> str:
    """Where its "Sign in" leads."""
    return str(find_control(seen.message.blocks, "Sign in")[1]["url"])


def leads_to(modal: Modal) -> str:
    return str(find_control(objects(modal.view.body.get("blocks")), "Sign in")[1]["url"])


async def comes_back(at: Office, address: str) -> int:
    """The browser is sent to the public address, behind which the bot is."""
    assert at.bot.url is not None
    async with ClientSession() as http, http.get(address.replace(PUBLIC, at.bot.url), allow_redirects=False) as page:
        assert page.headers["Referrer-Policy"] == "no-referrer"
        text = await page.text()
        assert "code" not in text
        return page.status


def other(address: str, **change: str) -> str:
    parts = urlsplit(address)
    return parts._replace(query=urlencode({**dict(parse_qsl(parts.query)), **change})).geturl()


@pytest.mark.parametrize("agent", ["calendar", "calendar_resumable", "calendar_signed", "calendar_node"])
async def test_whoever_began_the_session_signs_in(opens: Opens, service: Provider, agent: str) -> None:
    async with opens(agent) as at:
        said, card = await asked(at)
        assert "calendar.read" in card
        await at.bob.finds("needs ann to sign in", at.deploys, thread=said)
        assert "state=" not in at.bob.sees(at.deploys)
        back = await service.allows(link(card))
        assert await comes_back(at, back) == 200
        await at.ann.finds("'events': ['standup', 'lunch']", at.deploys, thread=said)
        await at.ann.finds("ann signed in for read_calendar", at.deploys, thread=said)
        await at.ann.finds("Signed in for")
        assert ran() == [{"tool": "calendar", "events": ["standup", "lunch"]}]
        await at.rests()
        assert "outside this app" not in at.ann.sees(at.deploys)


async def test_a_state_that_is_forged_used_or_another_s_signs_nobody_in(opens: Opens, service: Provider) -> None:
    async with opens("calendar") as at:
        said, card = await asked(at)
        theirs = await at.bob.says("@adk-confirm Friday", at.deploys)
        other_card = await at.bob.finds("Sign in for")
        back, others = await service.allows(link(card)), await service.allows(link(other_card))
        state = dict(parse_qsl(urlsplit(back).query))["state"]
        changed = state[:-1] + ("0" if state[-1] != "0" else "1")
        for forged in ("", "nothing", changed, f"{state.rpartition('.')[0]}."):
            assert await comes_back(at, other(back, state=forged)) == 400
        mixed = (
            f"{'.'.join(state.split('.')[:2])}.{dict(parse_qsl(urlsplit(others).query))['state'].rpartition('.')[2]}"
        )
        assert await comes_back(at, other(back, state=mixed)) == 400
        assert await comes_back(at, f"{PUBLIC}/adk/oauth/callback?error=access_denied&state={state}") == 400
        assert ran() == []

        assert await comes_back(at, back) == 200
        assert await comes_back(at, back) == 410
        await at.ann.finds("standup", at.deploys, thread=said)
        assert await comes_back(at, await service.allows(link(card))) == 410
        assert await comes_back(at, others) == 200
        await at.bob.finds("standup", at.deploys, thread=theirs)
        assert len(ran()) == 2


async def test_only_whoever_began_the_session_is_asked(
    opens: Opens, service: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.inbound.message_hints.PATIENCE", 0.1)  # a bot that stops waits for it
    async with opens("calendar") as at:
        said = await at.ann.says("@adk-confirm", at.deploys)
        await at.bob.says("@adk-confirm Friday", thread=said)
        card = await at.ann.finds("Sign in for")
        assert "Sign in for" not in at.bob.sees()
        await at.bob.says("press it for me", thread=said)
        assert await comes_back(at, await service.allows(link(card))) == 200
        await at.bob.finds("standup", at.deploys, thread=said)


@pytest.mark.parametrize(("agent", "policies"), [("calendar", LOCAL), ("calendar_local", POLICY)])
async def test_without_a_public_address_people_paste_where_they_end_up(
    opens: Opens, service: Provider, agent: str, policies: str
) -> None:
    """So they do where the agent has the browser sent somewhere else."""
    async with opens(agent, policies) as at:
        said, card = await asked(at)
        await at.ann.clicks(card, "Sign in…")
        modal = await at.ann.gets_modal("Sign in")
        back = await service.allows(leads_to(modal))
        assert back.startswith("http://localhost")
        for wrong, why in (
            ("https://elsewhere.example/?code=1", "This is another address"),
            (other(back, state="mine"), "belongs to another sign-in"),
            (other(back, code=""), "you are not signed in"),
        ):
            await modal.submits({"The address you end up at": wrong})
            assert why in str(modal.errors)
        await modal.submits({"The address you end up at": back})
        await at.ann.finds("standup", at.deploys, thread=said)
        assert ran() == [{"tool": "calendar", "events": ["standup", "lunch"]}]


async def test_a_key_is_typed_into_a_form(opens: Opens) -> None:
    async with opens("keyed") as at:
        said, card = await asked(at)
        assert "X-Api-Key" in card
        await at.ann.clicks(card, "Sign in…")
        await (await at.ann.gets_modal("Sign in")).submits({"API key": API_KEY})
        await at.ann.finds("standup", at.deploys, thread=said)
        assert ran() == [{"tool": "calendar", "events": ["standup", "lunch"]}]
        await at.rests()
        assert at.ann.now(card).buttons == ("See everything", "History")


@pytest.mark.parametrize("agent", ["calendar", "calendar_node"])
async def test_a_request_to_sign_in_is_withdrawn(opens: Opens, service: Provider, agent: str) -> None:
    async with opens(agent) as at:
        said, card = await asked(at)
        back = await service.allows(link(card))
        await at.ann.clicks(card, "Withdraw…")
        await (await at.ann.gets_modal("Withdraw")).submits()
        await at.ann.finds("ann withdrew the request to sign in", at.deploys, thread=said)
        assert await comes_back(at, back) == 410
        if agent == "calendar":  # a workflow's node takes nothing but an answer
            await at.ann.finds("Nobody signed in for read_calendar", at.deploys, thread=said)
        await at.rests()
        assert ran() == []


async def test_a_request_to_sign_in_expires_as_its_tool_s_policy_says(opens: Opens, service: Provider) -> None:
    async with opens("calendar", time_moves=True) as at:
        said, card = await asked(at)
        back = await service.allows(link(card))
        await at.later(hours=2)
        await at.ann.finds("Nobody signed in for read_calendar in time", at.deploys, thread=said)
        assert await comes_back(at, back) == 410
        await at.rests()
        assert at.ann.now(card).buttons == ("See everything", "History")


async def test_whoever_signed_in_before_a_crash_is_asked_again(opens: Opens, service: Provider) -> None:
    """What they gave was in memory only."""
    async with opens("calendar", time_moves=True) as at:
        said, card = await asked(at)
        await pause(at.bot.database)
        back = await service.allows(link(card))
        assert await comes_back(at, back) == 200
        await at.ann.finds("Signed in for clerk")
        await at.stops()
        await at.starts(POLICY)
        await resume(at.bot.database)
        await at.later(seconds=5)
        again = await at.ann.finds("Please sign in again")
        assert again.ts == card.ts
        await at.ann.finds("ann has to sign in for read_calendar again", at.deploys, thread=said)
        assert ran() == []
        assert await comes_back(at, back) == 400
        assert link(again) != link(card)
        assert await comes_back(at, await service.allows(link(again))) == 200
        await at.ann.finds("standup", at.deploys, thread=said)
        await at.rests()
        assert "outside this app" not in at.ann.sees(at.deploys)


@pytest.mark.slow
async def test_the_replica_that_somebody_came_back_to_gives_it_to_the_agent(
    postgres_stocked: str, service: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one leaves the answer to it, and what both store in one database holds nothing of it."""
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))
    target = "tests.support.foreign.signing_in:calendar_resumable"
    async with office(postgres_stocked, tmp_path / "log", monkeypatch, POLICY, target=target) as at:
        said, card = await asked(at)
        async with running_bot(configured(at.slack, postgres_stocked, POLICY, target=target), limits=AT_ONCE) as other:
            await pause(at.bot.database)
            assert await comes_back(at, (await service.allows(link(card))).replace(PUBLIC, other.url)) == 200
            await resume(at.bot.database)
            await at.ann.finds("'events': ['standup', 'lunch']", at.deploys, thread=said)
            await at.rests()
        stored = await at.bot.database.read(everything)
        assert len(ran()) == 1
    assert "notStored" in stored
    assert [secret for secret in service.secrets if secret in stored] == []


def everything(tx: Tx) -> str:
    """All rows of all tables."""
    names = tx.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).scalars().all()
    rows = (row for name in names for row in tx.execute(text(f'SELECT * FROM "{name}"')))
    return "\n".join(str(tuple(row)) for row in rows)


@pytest.mark.parametrize("agent", ["calendar_resumable", "calendar_local", "babbling", "calendar_node"])
async def test_what_somebody_gave_is_nowhere(
    opens: Opens, service: Provider, agent: str, logged: io.StringIO, tmp_path: Path
) -> None:
    async with opens(agent) as at:
        said, card = await asked(at)
        if agent in ("calendar_resumable", "calendar_node"):
            await comes_back(at, await service.allows(link(card)))
        else:
            await at.ann.clicks(card, "Sign in…")
            modal = await at.ann.gets_modal("Sign in")
            if agent == "babbling":
                await modal.submits({"API key": API_KEY})
            else:
                back = await service.allows(leads_to(modal))
                await modal.submits({"The address you end up at": back})
        await at.ann.finds("I got", at.deploys, thread=said)
        await at.ann.clicks(at.ann.now(card), "History")
        await at.ann.gets_modal("History")
        await at.rests()
        said_in_slack = "\n".join(str(made.args) for made in at.slack.calls)
        assert at.bot.url is not None
        metrics = await get(f"{at.bot.url}/metrics")
    found = {"slack": said_in_slack, "log": logged.getvalue(), "metrics": str(metrics)}
    found |= {path.name: path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()}
    assert any(name.startswith("store") for name in found)
    assert any(name.startswith("store-adk") for name in found), "google-adk's own sessions are looked through too"
    if agent == "babbling":  # what its own tool returns, google-adk stores and logs
        found = {"slack": said_in_slack, "store": found["store.db"]}
    assert {name: leak for name, text in found.items() if (leak := [s for s in service.secrets if s in text])} == {}
