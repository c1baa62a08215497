"""The API's responses: values and runs as JSON or as a stream, and errors as `{"detail": …}` with their status
codes."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from adk_confirm.runtime.errors import Busy, ConfirmError, Conflict, Forbidden, Invalid, NotFound, StoreError
from adk_confirm.runtime.jsontypes import Json
from adk_confirm.runtime.rest.bodies import MOST_BYTES, BadBody
from adk_confirm.runtime.rest.guard import Guard, Unauthorized, preflight
from adk_confirm.runtime.rest.listening import NOT_ENCODED, is_encoded
from adk_confirm.runtime.run.sequencer import Run
from adk_confirm.runtime.wire import WireModel

log = logging.getLogger(__name__)

CODES: tuple[tuple[type[ConfirmError], int], ...] = (
    (BadBody, 422),
    (Invalid, 400),
    (Unauthorized, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (Conflict, 409),
    (Busy, 503),
    (StoreError, 503),
)
"""The status code of each error. The first type that fits counts. Anything else is our own fault: 500."""


def as_json(value: Json, status: int = 200) -> web.Response:
    return web.json_response(text=json.dumps(value, ensure_ascii=False), status=status)


def as_model(value: WireModel) -> web.Response:
    return web.json_response(text=value.to_json())


def as_models(values: Iterable[WireModel]) -> web.Response:
    return web.json_response(text=f"[{','.join(value.to_json() for value in values)}]")


def error_middleware(guard: Guard) -> Middleware:
    """The outermost boundary: who may ask, and every error as `{"detail": …}` with its code."""

    @web.middleware
    async def handle(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            guard.check(request)
            if is_encoded(request):
                raise Invalid(NOT_ENCODED)
            return preflight(guard, request) or await handler(request)
        except ConfirmError as error:
            return _refusal(error)
        except web.HTTPRequestEntityTooLarge:
            return as_json({"detail": f"The body is too large: {MOST_BYTES:,} bytes are the most."}, 413)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return as_json({"detail": error.reason}, error.status)
        except ConnectionResetError:
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return as_json({"detail": "Internal Server Error: the server's log says more."}, 500)

    return handle


def _refusal(error: ConfirmError) -> web.Response:
    code = next((code for kind, code in CODES if isinstance(error, kind)), 500)
    if code >= 500:
        log.warning("answered with %d: %s", code, error)
    response = as_json({"detail": error.details if isinstance(error, BadBody) else str(error)}, code)
    if code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


async def as_events(run: Run) -> web.Response:
    bodies = [event.to_json() async for event in run if not event.partial]
    return web.Response(text=f"[{','.join(bodies)}]", content_type="application/json")


async def as_lines(run: Run) -> AsyncIterator[bytes]:
    """The run as server-sent events. The status 200 is sent first, so later errors are events too."""
    try:
        async for event in run:
            yield f"data: {event.to_json()}\n\n".encode()
    except Exception as error:
        if not isinstance(error, ConfirmError):
            log.exception("a run failed")
        sentence = str(error) if isinstance(error, ConfirmError) else "The run failed: the server's log says more."
        yield f"data: {json.dumps({'error': sentence}, ensure_ascii=False)}\n\n".encode()
