"""Serves `/healthz`, `/readyz` and `/metrics`."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web

from bot.telemetry.metrics import Metrics
from bot.telemetry.readiness import Readiness


def add_probes(site: web.Application, readiness: Readiness, metrics: Metrics) -> None:
    async def ready(request: web.Request) -> web.Response:  # noqa: ARG001  (aiohttp's handlers take one)
        parts = await readiness.look()
        lines = "".join(f"{part}: {trouble or 'ok'}\n" for part, trouble in parts.items())
        wrong = any(trouble is not None for trouble in parts.values())
        return web.Response(text=lines, status=HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK)

    async def measured(request: web.Request) -> web.Response:
        page, content_type = await metrics.page(request.headers.get("Accept", ""))
        return web.Response(body=page, headers={"Content-Type": content_type})

    site.router.add_get("/readyz", ready)
    site.router.add_get("/metrics", measured)
