"""The control socket: through it, commands reach the service that owns a SQLite store.

It is HTTP on a socket beside the database file, `x.db.sock`, which only the user that runs the service can open:

    POST /withdraw  {"v": 1, "arguments": {"id": "…"}}
    {"done": {…}}    or    {"error": "a sentence"}

PostgreSQL does not need it: there a command works on the database itself, as any replica does.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import Busy, ConfirmError, Invalid, StoreError
from runtime.jsontypes import JsonObject

if TYPE_CHECKING:  # a command without a service needs no HTTP
    from aiohttp import web

Handler = Callable[[JsonObject], Awaitable[JsonObject]]
"""What a command does in the service: takes its arguments, returns its answer."""

VERSION = 1
LONGEST_REQUEST = 4 * 2**20
LONGEST_ADDRESS = 100
"""The most bytes that a socket's address may have: 104 or a few more, depending on the system."""

_DRAINING = 0.5  # the worker stops at the same time, and has a deadline of its own

log = logging.getLogger(__name__)


class CommandRefused(ConfirmError):
    """The service refused the command. The message is a sentence for people."""


# The service's side


@asynccontextmanager
async def serve_control(path: Path | None, handlers: Mapping[str, Handler]) -> AsyncIterator[None]:
    """Serves commands while the block runs. A command that has started may finish. The caller must own the store."""
    if path is None or sys.platform == "win32":
        yield
        return
    from aiohttp import web

    async def take(request: web.Request) -> web.Response:
        return web.json_response(await _answer(handlers, request))

    app = web.Application(client_max_size=LONGEST_REQUEST)
    app.router.add_post("/{command}", take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_DRAINING)
    await runner.setup()
    try:
        await _listen(runner, path)
        yield
    finally:
        _remove(path)
        await runner.cleanup()


def _remove(path: Path) -> None:
    with suppress(OSError):  # a socket that is left refuses connections, and is replaced at the next start
        path.unlink(missing_ok=True)


async def _listen(runner: web.AppRunner, path: Path) -> None:
    """Creates the socket so that only our user can ever open it."""
    from aiohttp import web

    _remove(path)  # the process that left it has ended, since we hold the store's lock
    try:
        with _address(path) as address:
            before = os.umask(0o177)  # affects the whole process, but only restricts rights
            try:
                await web.UnixSite(runner, address).start()
            finally:
                os.umask(before)
    except OSError as error:
        log.warning(
            "No control socket at %s (%s). To run a command that changes something, stop the service first.",
            path,
            error,
        )


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """An address for a path that is too long for a socket: through its open directory."""
    if len(os.fsencode(path)) <= LONGEST_ADDRESS:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


async def _answer(handlers: Mapping[str, Handler], request: web.Request) -> JsonObject:
    name = request.match_info["command"]
    try:
        body = await request.json()
    except (ValueError, RecursionError):
        body = None
    arguments = body.get("arguments") if isinstance(body, dict) and body.get("v") == VERSION else None
    if name not in handlers or not isinstance(arguments, dict):
        return {
            "error": f"The running service does not know {name!r} in this form: it is of another version. Restart it "
            "with this version."
        }
    log.info("operator's command: %s", name)
    try:
        return {"done": await handlers[name](arguments)}
    except ConfirmError as error:
        return {"error": str(error)}
    except Exception as error:
        # The service goes on after any error; its log has the details.
        log.exception("%s failed", name)
        return {"error": f"The service could not do this ({type(error).__name__}). Its log says more."}


# The command's side


async def ask(path: Path, command: str, arguments: JsonObject, *, answers_within: float = 10.0) -> JsonObject | None:
    """Lets the process that owns the store run the command. `None` if nobody listens there, so that nobody owns the
    store.

    A command may take long, so the service is first asked something quick. This shows whether it works or is frozen.
    """
    if sys.platform == "win32" or not os.path.exists(path):  # noqa: ASYNC240  (one stat)
        return None
    import aiohttp

    body = io.BytesIO(json.dumps({"v": VERSION, "arguments": arguments}).encode())
    try:
        with _address(path) as address:
            connector = aiohttp.UnixConnector(address)
            async with (
                aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session,
            ):
                async with asyncio.timeout(answers_within), session.post("http://service/") as response:
                    await response.read()
                async with session.post(f"http://service/{command}", data=body) as response:
                    return _result_of(response.status, await response.json() if response.ok else None)
    except TimeoutError as error:
        raise StoreError(
            f"The service has not answered for {answers_within:g} s: it hangs or is overloaded. Nothing "
            "was done. Look at its process, then run this again."
        ) from error
    except aiohttp.ClientConnectorError as error:
        if isinstance(error.os_error, FileNotFoundError | ConnectionRefusedError):
            return None
        raise _unreachable(path, error.os_error) from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise StoreError(
            "The service stopped before it answered. It may have done it or not; running the command again is safe."
        ) from error


def _unreachable(path: Path, error: OSError) -> ConfirmError:
    match error:
        case PermissionError():
            return StoreError(f"{path} belongs to another user. Run this command as the user that runs the service.")
        case BlockingIOError():
            return Busy("The service has too many commands at once. Nothing was done; try again soon.")
    return StoreError(f"{path} can't be reached ({error.strerror}). Stop the service, then run this again.")


def _result_of(status: int, answer: object) -> JsonObject:
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        raise Invalid(
            "This command is too large for the running service. Stop the service, then run the command again."
        )
    if status == HTTPStatus.OK and isinstance(answer, dict):
        if "error" in answer:
            raise CommandRefused(str(answer["error"]))
        if isinstance(done := answer.get("done"), dict):
            return done
    raise Invalid("The service's answer can't be read: it is of another version. Restart it with this version.")
