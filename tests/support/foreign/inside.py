"""Agents in this process, opened as the bot opens them."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from adk_confirm.bot.config.settings import AgentSettings
from adk_confirm.bot.hosts.host import Host
from adk_confirm.bot.hosts.open_host import open_host
from adk_confirm.bot.store.open import open_store
from adk_confirm.runtime.wire import SessionId
from tests.support.foreign.fifos import all_let_go
from tests.support.foreign.kinds import Kind
from tests.support.foreign.rig import Foreign
from tests.support.foreign.scenes import SCENES, Scene
from tests.support.foreign.visit import Visit
from tests.support.stores import SECRET, temporary_store

TARGETS = "tests.support.foreign.in_process"


@asynccontextmanager
async def opened(target: str, store: str | None = None) -> AsyncIterator[Host]:
    async with AsyncExitStack() as stack:
        url = store or stack.enter_context(temporary_store())
        database = await open_store(url, SECRET)
        stack.push_async_callback(database.close)
        host = await open_host(AgentSettings(target=f"{TARGETS}:{target}"), database, store_url=url)
        stack.push_async_callback(host.close)
        yield host


@asynccontextmanager
async def visiting(target: str, store: str | None = None) -> AsyncIterator[Visit]:
    """Visits with the same session each time, also in the next process."""
    async with opened(target, store) as host:
        yield Visit(host, SessionId(host.app, "slack-T1-U0ANN", "slack-T1-C1-1.1"))


class InProcessScene(Scene):
    """A scene whose agents are in this process. All visits of an agent share one host."""

    host: Host

    def visit(self, app: str = "clerk", timeout: float = 30.0) -> Visit:  # noqa: ARG002
        assert app == self.host.app
        return Visit(self.host)


async def played(kind: Kind, scene: str, target: str, store: str, room: Path) -> None:
    async with opened(target, store) as host:
        at = InProcessScene(kind, Foreign((sys.executable,), room, {}))
        at.host = host
        with all_let_go(room):
            await SCENES[scene][1](at)
