"""A caller at the door of an office, as a program is one.

async with door(database_url, log, monkeypatch) as at:
    ask = await at.ci.asks("deploy", env="prod")
    await at.bob.clicks(await at.card(), "Approve")
    assert (await ask.becomes("approved")).status == "approved"
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from adk_confirm.bot.audit.checkpoints import CheckpointKey, PublicKeys
from adk_confirm.bot.door.asks import topic
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object
from adk_confirm.runtime.store.database import Tx
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.office import ONE, Office, office
from tests.support.waiting import until

KEY = "11" * 32
PUBLIC = PublicKeys(CheckpointKey(KEY).public)
TOKENS = {"CI_TOKEN": "the token of ci, and of nobody else", "NIGHTLY_TOKEN": "the token of nightly, likewise"}
ENV = {"ADK_CONFIRM_CHECKPOINT_KEY": KEY}
CLAIM = "a claim that nobody guesses"

_keys = count(1)


DEPLOYS = "C0SANDBOX0003"
"""The id of #deploys: the sandbox numbers what it makes."""


def settings(
    channel: str,
    *,
    port: int = 0,
    waiting: int = 20,
    per_minute: int = 1000,
    within: str = "1h",
    asker: str = "",
    servers: str = "",
) -> str:
    """The door's table: ci may ask for what begins with deploy and pay, nightly for everything."""
    limits = f"waiting = {waiting}\nper_minute = {per_minute}\n"
    who = f'asker = "{asker}"\n' if asker else ""
    return (
        f'[door]\nlisten = "127.0.0.1:{port}"\nreport_within = "{within}"\n'
        f'[[door.caller]]\nname = "ci"\ntoken_env = "CI_TOKEN"\ntools = ["deploy*", "pay"]\nchannel = "{channel}"\n'
        f"{limits}{who}"
        f'[[door.caller]]\nname = "nightly"\ntoken_env = "NIGHTLY_TOKEN"\ntools = ["*"]\nchannel = "{channel}"\n'
        f"{servers}"
    )


@dataclass(frozen=True)
class Answer:
    """What the door answered."""

    status: int
    body: JsonObject
    headers: Mapping[str, str]

    @property
    def task(self) -> JsonObject:
        return as_object(self.body["task"])

    @property
    def is_now(self) -> Json:
        return self.task["status"]

    @property
    def error(self) -> str:
        return str(as_object(self.body["error"])["message"])

    @property
    def outcome(self) -> JsonObject:
        return as_object(as_object(self.body["result"])["outcome"])


@dataclass(frozen=True)
class Caller:
    url: str
    token: str

    async def sends(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        every = {"Authorization": f"Bearer {self.token}", **headers}
        async with (
            aiohttp.ClientSession() as http,
            http.request(method, f"{self.url}{path}", json=body, headers=every) as answer,
        ):
            return Answer(answer.status, await answer.json(), answer.headers)

    async def posts(self, body: object, key: str | None = None, wait: str = "") -> Answer:
        named = key or f"key {next(_keys)}"
        return await self.sends("POST", f"/v1/asks{wait and f'?wait={wait}'}", body, **{"Idempotency-Key": named})

    async def asks(self, tool: str, *, key: str | None = None, wait: str = "", **arguments: Any) -> Ask:
        answer = await self.posts({"tool": tool, "arguments": arguments}, key, wait)
        assert answer.status in (200, 202), answer.body
        return Ask(self, answer)


@dataclass(frozen=True)
class Ask:
    by: Caller
    answer: Answer

    @property
    def path(self) -> str:
        return self.answer.headers["Location"]

    async def now(self, wait: str = "1s") -> Answer:
        return await self.by.sends("GET", f"{self.path}?wait={wait}")

    async def is_decided(self) -> Answer:
        while (answer := await self.now("20s")).is_now == "pending":
            pass
        return answer

    async def becomes(self, kind: str) -> Answer:
        """Waits for an outcome."""

        async def there() -> Answer | None:
            answer = await self.now()
            became = as_object(as_object(answer.body.get("result")).get("outcome")).get("kind")
            return answer if became == kind else None

        return await until(there)

    async def claims(self, claim: str = CLAIM) -> Answer:
        return await self.by.sends("POST", f"{self.path}/claim", {"claim": claim})

    async def reports(self, status: str = "done", claim: str = CLAIM, **result: Any) -> Answer:
        body = {"claim": claim, "status": status, "result": result}
        return await self.by.sends("POST", f"{self.path}/result", body)

    async def is_cancelled(self) -> Answer:
        return await self.by.sends("POST", f"{self.path}/cancel")


class AtTheDoor(Office):
    """An office with callers."""

    @property
    def ci(self) -> Caller:
        return self._caller("CI_TOKEN")

    @property
    def nightly(self) -> Caller:
        return self._caller("NIGHTLY_TOKEN")

    def _caller(self, token: str) -> Caller:
        assert self.bot.door is not None
        return Caller(self.bot.door, TOKENS[token])

    async def restarts(self) -> None:
        """The callers find it at another address."""
        await self.stops()
        await self.starts(self.policies)

    async def hours_pass(self, hours: float) -> None:
        """For what is claimed: whoever waits for a report looks at the clock."""
        self.slack.clock.advance(3600 * hours)
        await self.bot.database.run(_wake)

    async def card(self, button: str = "Approve") -> Seen:
        """The newest card that has this button."""

        def there() -> Seen | None:
            return next((one for one in reversed(self.cards()) if button in one.buttons), None)

        return await self.slack.until(there, what=f"a card with {button}")


def _wake(tx: Tx) -> None:
    for key in tx.column("SELECT key FROM bot_sessions WHERE app = 'door'"):
        tx.notify(topic(key))


@asynccontextmanager
async def door(
    database_url: str,
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
    policies: str = ONE,
    *,
    slack: FakeSlack | None = None,
    time_moves: bool = False,
    target: str = "adk_confirm.examples.oncall:agent",
    **limits: Any,
) -> AsyncIterator[AtTheDoor]:
    """The office of an agent and two callers. `limits`: those of the door's settings."""
    for name, token in TOKENS.items():
        monkeypatch.setenv(name, token)
    text = f"{settings(DEPLOYS, **limits)}{policies}"
    async with office(
        database_url, log, monkeypatch, text, slack=slack, target=target, env=ENV, time_moves=time_moves
    ) as at:
        at.__class__ = AtTheDoor
        assert isinstance(at, AtTheDoor)
        yield at
