"""Serves our API for given agents, on a free port, until the block of a test ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from adk_confirm import Runner
from adk_confirm.runtime.rest.endpoints import make_app
from adk_confirm.runtime.rest.guard import Guard
from adk_confirm.runtime.rest.listening import Served


@asynccontextmanager
async def served(*runners: Runner, guard: Guard | None = None) -> AsyncIterator[str]:
    """The base URL."""
    running = Served(make_app(runners, guard), shutdown_timeout=1.0)
    await running.setup()
    try:
        await web.TCPSite(running, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{running.addresses[0][1]}"
    finally:
        await running.cleanup()


@asynccontextmanager
async def browsing(url: str) -> AsyncIterator[aiohttp.ClientSession]:
    """A client that keeps no connections open, so that a stopping server need not wait for it."""
    async with aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(force_close=True, limit=0)) as http:
        yield http
