"""The API as a process: loads agents and serves them until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from adk_confirm.runtime.agent import Agent
from adk_confirm.runtime.rest.api import make_app
from adk_confirm.runtime.rest.guard import Guard
from adk_confirm.runtime.rest.listening import listen, server_for
from adk_confirm.runtime.run.runner import Runner
from adk_confirm.runtime.store.seal import Seal
from adk_confirm.runtime.store.tables import open_store
from adk_confirm.runtime.telemetry.logs import configure
from adk_confirm.runtime.tool import end_threads
from adk_confirm.runtime.wire import Dialect

_LAST_ANSWERS = 1.0  # for responses that are still being sent when everything else has stopped

_NOT_SEALED = (
    "ADK_CONFIRM_SECRET is not set, so stored calls are not sealed: whoever can write to the database can change what "
    "runs."
)


@dataclass(frozen=True)
class ServerOptions:
    """What to serve, and on which address."""

    agents: Sequence[Agent]
    guard: Guard
    port: int
    store: str
    dialect: Dialect = "call"
    shares_state: bool = False  # whether clients may write the `app:` state of an app that a bot uses too
    seal: Seal | None = None  # for stored calls


def serve_until_stopped(serving: ServerOptions) -> int:
    """Serves until SIGINT or SIGTERM, then stops within ten seconds. Returns the exit code."""
    configure()
    asyncio.run(_until_stopped(serving))
    if not end_threads(patience=0.5):
        # A tool that still runs could keep the process alive for any time. Its call is stored as running.
        logging.shutdown()
        sys.stdout.flush()
        os._exit(0)
    return 0


async def _until_stopped(serving: ServerOptions) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with serving_at(serving) as (url, store):
        names = ", ".join(agent.name for agent in serving.agents)
        print(f"Serving {names} at {url}, with the store {store}.", flush=True)
        if serving.seal is None:
            print(_NOT_SEALED, flush=True)
        await stop.wait()
        print("Stopping: what runs now has a few seconds to end; what is left goes on at the next start.", flush=True)


@asynccontextmanager
async def serving_at(serving: ServerOptions) -> AsyncIterator[tuple[str, str]]:
    """The addresses of the server and of its store, while it listens. Raises `CannotServe` and `StoreError`."""
    database = await open_store(serving.store, seal=serving.seal)
    try:
        runners = [
            Runner(
                agent,
                database,
                dialect=serving.dialect,
                shares_state=serving.shares_state,
            )
            for agent in serving.agents
        ]
        served = server_for(make_app(runners, serving.guard), shutdown_timeout=_LAST_ANSWERS)
        try:
            await served.setup()
            yield await listen(served, serving.guard.host, serving.port), database.url
        finally:
            await served.cleanup()
    finally:
        await database.close()
