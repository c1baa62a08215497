"""Whether this process lives and works: `/healthz` and `/readyz`, which are served here, beside `/metrics`. Each part
says what is wrong with it, or nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from aiohttp import web
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient

from adk_confirm.bot.store.open import SCHEMAS
from adk_confirm.bot.telemetry.metrics import Metrics
from adk_confirm.runtime.errors import ConfirmError, reason
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.tables import version

log = logging.getLogger(__name__)

Probe = Callable[[], Awaitable[str | None]]

PATIENCE = 2.0
STARTING = "is being started"
STOPPING = "is being stopped"


class Readiness:
    """Ready once everything runs, and no longer when the stop begins."""

    def __init__(self) -> None:
        self._parts: dict[str, Probe] = {}
        self._not_yet: str | None = STARTING
        self._said: Mapping[str, str | None] = {}  # what the log said last
        self.notes: dict[str, str] = {}
        """What `/readyz` says besides, though it makes nothing unready."""

    def watch(self, part: str, probe: Probe) -> None:
        self._parts[part] = probe

    def started(self) -> None:
        self._not_yet = None

    def stopping(self) -> None:
        self._not_yet = STOPPING

    async def look(self) -> Mapping[str, str | None]:
        """What is wrong, by part. All parts are asked at once."""
        if self._not_yet is not None:
            return {"adk-confirm": self._not_yet}
        found = await asyncio.gather(*(_probe_answer(probe) for probe in self._parts.values()))
        parts = dict(zip(self._parts, found, strict=True))
        for part, trouble in parts.items():
            if trouble is not None and trouble != self._said.get(part):
                log.warning("not ready: %s: %s", part, trouble)
        self._said = parts
        return parts


async def _probe_answer(probe: Probe) -> str | None:
    try:
        async with asyncio.timeout(PATIENCE):
            return await probe()
    except TimeoutError:
        return f"did not answer within {PATIENCE:g} s"
    except ConfirmError as error:
        return str(error)
    except Exception as error:
        log.exception("a part could not be asked whether it is ready")
        return f"could not be asked: {reason(error)}"


def store_probe(database: Database, trouble: Callable[[], str | None]) -> Probe:
    """Checks that the store answers and that its tables are those of this version. `trouble`: why it takes no work."""

    async def probe() -> str | None:
        for schema in SCHEMAS:
            if (why := schema.misfit(await database.read(version, schema))) is not None:
                return why
        return trouble()

    return probe


_DISCONNECTED = (
    "the Socket Mode connection is down and is being restored; `adk-confirm check` says whether Slack takes the token"
)


def socket_probe(client: AsyncBaseSocketModeClient) -> Probe:
    async def probe() -> str | None:
        return None if await client.is_connected() else _DISCONNECTED

    return probe


def add_probes(site: web.Application, readiness: Readiness, metrics: Metrics) -> None:
    async def alive(request: web.Request) -> web.Response:  # noqa: ARG001  (aiohttp's handlers take one)
        return web.Response(text="ok\n")

    async def ready(request: web.Request) -> web.Response:  # noqa: ARG001  (aiohttp's handlers take one)
        parts = await readiness.look()
        said = {part: trouble or "ok" for part, trouble in parts.items()} | readiness.notes
        lines = "".join(f"{part}: {words}\n" for part, words in said.items())
        wrong = any(trouble is not None for trouble in parts.values())
        return web.Response(text=lines, status=HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK)

    async def measured(request: web.Request) -> web.Response:
        page, content_type = await metrics.page(request.headers.get("Accept", ""))
        return web.Response(body=page, headers={"Content-Type": content_type})

    site.router.add_get("/healthz", alive)
    site.router.add_get("/readyz", ready)
    site.router.add_get("/metrics", measured)
