"""How long the bot waits for an ADK server: as long as `[agent] timeout` says, whatever the HTTP client's own limits
are.

The clock is put forward; nobody waits. The tool runs in the server, a replay of ADK Java's in this process.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.client import DEFAULT_TIMEOUT

from adk_confirm.bot.config.settings import AgentSettings
from adk_confirm.bot.confirmation.confirmation import HostRequest, OutcomeKind
from adk_confirm.bot.hosts.host import DeliveryUnknown, RunOutput, UserWords
from adk_confirm.bot.hosts.open_host import open_host
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.wire import SessionId
from tests.support.foreign.ear import Ear, listening, saying
from tests.support.foreign.fifos import all_let_go, hold, let_go
from tests.support.foreign.visit import Visit
from tests.support.skipping import Skipping, in_skipping_time
from tests.support.waiting import until

OURS = SessionId("clerk", "slack-T1-U0ANN", "slack-T1-C1-1.1")
MINUTE = 60.0
DEFAULT = 10 * MINUTE


@dataclass
class Waiting:
    """A bot in front of a server, and what its tool did."""

    loop: Skipping
    ear: Ear
    visit: Visit
    room: Path

    async def lingers(self, word: str) -> tuple[HostRequest, asyncio.Task[list[str]]]:
        """Approves, and returns when the tool is in its middle."""
        hold(self.room, word)
        request = await self.visit.asks(f"please linger {word}")
        approving = asyncio.create_task(self.visit.approve(request))
        await until(self.log)  # the log is a file
        return request, approving

    def log(self) -> list[str]:
        """What the tool wrote, each time the name of the one thing that it told."""
        file = self.room / "tools.log"
        return [[*json.loads(line)][1] for line in file.read_text().splitlines()] if file.exists() else []


Play = Callable[[Waiting], Awaitable[None]]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))
    monkeypatch.setenv("TOOL_FIFO", str(tmp_path / "fifo"))

    def played(scene: Play, timeout: timedelta | None = None) -> None:
        async def play(loop: Skipping) -> None:
            async with waiting(loop, tmp_path, timeout) as at:
                await scene(at)

        in_skipping_time(play)

    return played


@asynccontextmanager
async def waiting(loop: Skipping, room: Path, timeout: timedelta | None) -> AsyncIterator[Waiting]:
    store = await Database.open("sqlite://")
    async with listening(Ear()) as ear:
        settings = AgentSettings(url=ear.url, app="clerk", **({} if timeout is None else {"timeout": timeout}))
        host = await open_host(settings, store, loop.wall)
        with all_let_go(room):
            yield Waiting(loop, ear, Visit(host, OURS), room)
        await host.close()
    await store.close()


# Waited for


STREAMS = pytest.mark.parametrize("streams", [True, False], ids=["streaming", "whole"])


@STREAMS
def test_a_tool_is_waited_for_longer_than_an_http_client_does_by_itself(
    play: Callable[..., None], streams: bool
) -> None:
    async def scene(at: Waiting) -> None:
        at.ear.instead.update({} if streams else {"/run_sse": saying("", 404)})
        request, approving = await at.lingers("long")
        assert DEFAULT_TIMEOUT.total is not None
        await at.loop.skip(DEFAULT_TIMEOUT.total + MINUTE)
        await at.loop.skip(DEFAULT - DEFAULT_TIMEOUT.total - 2 * MINUTE)
        let_go(at.room, "long")
        assert "long" in (await approving)[-1]  # as the run itself said it: nothing was looked up
        assert await at.visit.became(request) is OutcomeKind.DONE

    play(scene)


def test_how_long_is_a_setting(play: Callable[..., None]) -> None:
    async def scene(at: Waiting) -> None:
        _, approving = await at.lingers("long")
        await at.loop.skip(119 * MINUTE)
        let_go(at.room, "long")
        assert "long" in (await approving)[-1]

    play(scene, timedelta(hours=2))


# Not for ever


@STREAMS
def test_of_what_was_begun_and_not_heard_of_again_the_outcome_is_unknown(
    play: Callable[..., None], streams: bool
) -> None:
    async def scene(at: Waiting) -> None:
        at.ear.instead.update({} if streams else {"/run_sse": saying("", 404)})
        request, approving = await at.lingers("long")
        await at.loop.skip(DEFAULT + MINUTE)
        assert await approving == []
        assert await at.visit.became(request) is OutcomeKind.UNKNOWN
        await at.loop.skip(DEFAULT + MINUTE)
        assert await at.visit.approve(request) == []
        assert at.log() == ["begun"]

    play(scene)


def test_what_was_settled_without_a_word_is_read_from_the_session(play: Callable[..., None]) -> None:
    async def scene(at: Waiting) -> None:
        request = await at.visit.asks("please deploy search")
        ran = asyncio.Event()

        async def ran_in_silence(asked: web.Request) -> web.StreamResponse:
            await at.ear.java.run(asked)
            ran.set()
            return await silence(asked)

        at.ear.instead["/run_sse"] = ran_in_silence
        approving = asyncio.create_task(at.visit.approve(request))
        await ran.wait()
        await at.loop.skip(DEFAULT + MINUTE)
        assert await approving == []
        assert await at.visit.became(request) is OutcomeKind.DONE
        assert at.log() == ["service"]

    play(scene)


def test_a_run_that_keeps_talking_is_cut_like_one_that_does_not(play: Callable[..., None]) -> None:
    """Whether an answer may be sent again goes by how long the first could still arrive: so that has to have an end."""

    async def scene(at: Waiting) -> None:
        talk = asyncio.Queue[bool]()

        async def talks(asked: web.Request) -> web.StreamResponse:
            stream = web.StreamResponse()
            await stream.prepare(asked)
            while await talk.get():
                await stream.write(f"data: {PIECE}\n\n".encode())
            return stream

        at.ear.instead["/run_sse"] = talks
        heard: list[RunOutput] = []

        async def says() -> None:
            async for one in at.visit.host.say(OURS, UserWords(mark="m1", text="hello")):
                heard.append(one)  # noqa: PERF401  (how many there are so far is what counts)

        saying = asyncio.create_task(says())
        for _ in range(4):
            before = len(heard)
            talk.put_nowait(True)
            await _until_more(heard, before)
            await at.loop.skip(2 * MINUTE)
        assert not saying.done()
        await at.loop.skip(3 * MINUTE)
        with pytest.raises(DeliveryUnknown, match="took longer than 600 seconds"):
            await saying
        talk.put_nowait(False)

    play(scene)


PIECE = json.dumps({"id": "1", "author": "clerk", "partial": True, "content": {"parts": [{"text": "Well, "}]}})


async def _until_more(heard: list[RunOutput], before: int) -> None:
    await until(lambda: len(heard) > before)


async def silence(request: web.Request) -> web.StreamResponse:
    """A stream in which nothing comes, for as long as anybody listens."""
    stream = web.StreamResponse()
    await stream.prepare(request)
    while request.transport is not None:
        await asyncio.sleep(0.01)
    return stream
