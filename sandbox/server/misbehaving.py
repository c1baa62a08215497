"""Applies a fault to one request, before or after the request has been carried out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from adk_confirm.sandbox.refusals import ApiRefusal
from adk_confirm.sandbox.server.faults import Fault
from adk_confirm.sandbox.server.rates import rate_limited


async def misbehave(fault: Fault, request: web.Request, act: Callable[[], web.Response]) -> web.StreamResponse:
    if fault.kind == "limit":
        raise rate_limited(fault.seconds)
    if fault.kind == "refuse":
        raise ApiRefusal(fault.code)
    answer = act() if fault.acted else None
    match fault.kind:
        case "cut":
            return _cut(request)
        case "fail":
            return web.Response(status=fault.status, text="<html>Server Error</html>", content_type="text/html")
        case "garble":
            return web.Response(text='{"ok": tru', content_type=fault.code)
        case "hang":
            await fault.hold()
        case "slow":
            await asyncio.sleep(fault.seconds)
    return answer or act()


def _cut(request: web.Request) -> web.StreamResponse:
    """The peer sees a reset: neither a status nor a body."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
