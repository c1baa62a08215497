"""The control channel: by it the operator's commands reach the process that owns a SQLite store.

A socket beside the database file, `x.db.sock`, open to the user that runs the service and to nobody else. One exchange
a connection, one JSON object a line each way:

    {"v": 1, "command": "withdraw", "arguments": {"id": "…"}}
    {"done": {…}}    or    {"error": "a sentence"}

Stores on PostgreSQL need none of it: there a command goes to the database as any replica does.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from runtime.errors import Busy, ConfirmError, Invalid, StoreError
from runtime.jsontypes import JsonObject

Handler = Callable[[JsonObject], Awaitable[JsonObject]]
"""What a command does in the service, from its arguments to its answer."""

VERSION = 1
LONGEST_REQUEST, LONGEST_ANSWER = 4 * 2**20, 256 * 2**20
LONGEST_ADDRESS = 100
"""A socket's address has room for 104 bytes or a few more, depending on the system."""

_READING = 10.0
_DRAINING = 0.5  # by then the worker has had its time to end, and a command had as much

log = logging.getLogger(__name__)


class CommandRefused(ConfirmError):
    """What the service said in answer to a command; it is a sentence for people already."""


# The service's side


@asynccontextmanager
async def serve_control(path: Path | None, handlers: Mapping[str, Handler]) -> AsyncIterator[None]:
    """Listens while the block lasts; what was begun then may still end. The caller owns the store at this path."""
    if path is None or sys.platform == "win32":
        yield
        return
    listening = _listen(path)
    if listening is None:
        yield
        return
    control = _Control(handlers)
    server = await asyncio.start_unix_server(control.serve, sock=listening, limit=LONGEST_REQUEST)
    try:
        yield
    finally:
        server.close()
        _remove(path)
        await control.drain()


def _remove(path: Path) -> None:
    with suppress(OSError):  # a socket that stays is refused by whoever tries it, and taken over at the next start
        path.unlink(missing_ok=True)


def _listen(path: Path) -> socket.socket | None:
    """Nobody else's from the moment it is there."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)  # whoever left it is gone: the store's lock is ours
        with _address(path) as address:
            before = os.umask(0o177)  # the process's, and only narrower: what another thread makes meanwhile is safe
            try:
                listening.bind(address)
            finally:
                os.umask(before)
    except OSError as error:
        listening.close()
        log.warning("%s can't be listened on (%s): the commands that change something need this stopped", path, error)
        return None
    return listening


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """What is too long for an address is reached through its open directory."""
    if len(os.fsencode(path)) <= LONGEST_ADDRESS:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


class _Control:
    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._listening: set[asyncio.Task[None]] = set()
        self._working: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._listening.add(task)
        try:
            request = await _read(reader)
            self._working.add(task)
            writer.write(_line(await self._answer(request)))
            with suppress(ConnectionError):  # it is done all the same
                await writer.drain()
        finally:
            self._listening.discard(task)
            self._working.discard(task)
            writer.close()

    async def drain(self) -> None:
        for task in self._listening - self._working:
            task.cancel()
        if self._listening:
            _, late = await asyncio.wait(self._listening, timeout=_DRAINING)
            for task in late:
                task.cancel()

    async def _answer(self, request: JsonObject | str) -> JsonObject:
        if isinstance(request, str):
            return {"error": request}
        name, arguments = request.get("command"), request.get("arguments")
        handler = self._handlers.get(name) if isinstance(name, str) else None
        if handler is None or request.get("v") != VERSION or not isinstance(arguments, dict):
            return {
                "error": f"The running service does not know {name!r} as this command means it: it is of another "
                "version. Restart it with this one."
            }
        log.info("told by the operator: %s", name)
        try:
            return {"done": await handler(arguments)}
        except ConfirmError as error:
            return {"error": str(error)}
        except Exception as error:
            # The outermost boundary of one command: the service goes on, and its log has the rest.
            log.exception("%s failed", name)
            return {"error": f"The service could not do this ({type(error).__name__}). Its log says more."}


async def _read(reader: asyncio.StreamReader) -> JsonObject | str:
    """The request, or what is wrong with it."""
    try:
        async with asyncio.timeout(_READING):
            line = await reader.readline()
        request = json.loads(line)
    except TimeoutError:
        return f"No command came within {_READING:g} seconds."
    except (ValueError, RecursionError):
        return "This was no command: one JSON object on one line is."
    return request if isinstance(request, dict) else "This was no command: a JSON object is."


def _line(message: JsonObject) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


# The command's side


async def ask(path: Path, command: str, arguments: JsonObject) -> JsonObject | None:
    """What the process that owns the store has done; `None` when nobody listens there, so that nobody owns it."""
    connection = await _connected(path)
    if connection is None:
        return None
    reader, writer = connection
    try:
        writer.write(_line({"v": VERSION, "command": command, "arguments": arguments}))
        await writer.drain()
        line = await reader.readline()
    except (OSError, ValueError):
        line = b""
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    return _done(line)


async def _connected(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    if sys.platform == "win32":
        return None
    try:
        with _address(path) as address:
            return await asyncio.open_unix_connection(address, limit=LONGEST_ANSWER)
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    except PermissionError as error:
        raise StoreError(
            f"{path} belongs to another user: run this command as the user that runs the service."
        ) from error
    except BlockingIOError as error:
        raise Busy("The service has too many commands at once. Nothing was done; try again soon.") from error
    except OSError as error:
        raise StoreError(
            f"{path} can't be reached ({error.strerror}): stop the service, then run this again."
        ) from error


def _done(line: bytes) -> JsonObject:
    if not line.endswith(b"\n"):
        raise StoreError(
            "The service stopped before it answered, and may have done it or not. Running the command again is safe."
        )
    answer = json.loads(line)
    if "error" in answer:
        raise CommandRefused(str(answer["error"]))
    done = answer["done"]
    if not isinstance(done, dict):
        raise Invalid("The service gave no answer that this version knows. Restart it with this version.")
    return done
