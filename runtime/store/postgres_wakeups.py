"""Notifications between replicas: one connection that listens, announces what was committed here, and shows that this
replica exists.

`NOTIFY` inside a transaction takes a lock of the whole database server at the commit. So topics are collected, and sent
after the commit, several together in one statement. A notification that is lost with a connection or a process costs
only time: after every reconnection all waiters look again, and each of them also polls slowly.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from asyncpg import InterfaceError, InternalClientError, PostgresError

from runtime.errors import StoreError
from runtime.store.wakeups import Hub

CHANNEL = "adk_confirm"
EVERYBODY = "*"
PAYLOAD_TOPICS = 400  # of 17 bytes each: PostgreSQL takes payloads of less than 8000 bytes
BACKLOG = 4000
PRESENCE = int.from_bytes(b"adk-conf", signed=True)
"""An advisory lock: shared by all processes that use the store, taken exclusively by one that is alone."""
PING_SECONDS = 30.0
RETRY_SECONDS = 1.0
BROKEN = (OSError, PostgresError, InterfaceError, InternalClientError)
"""What asyncpg raises when there is no connection, or no longer one."""

_log = logging.getLogger(__name__)


class DriverConnection(Protocol):
    """The part of asyncpg's connection that is used here."""

    async def execute(self, query: str, *args: object, timeout: float | None = None) -> str: ...

    async def fetchval(self, query: str, *args: object, timeout: float | None = None) -> object: ...

    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...

    def add_termination_listener(self, callback: Callable[[object], None]) -> None: ...

    def get_server_pid(self) -> int: ...

    def is_closed(self) -> bool: ...

    async def close(self, *, timeout: float | None = None) -> None: ...

    def terminate(self) -> None: ...


class WakeupConnection:
    def __init__(self, connect: Callable[[], Awaitable[DriverConnection]], hub: Hub) -> None:
        self._connect = connect
        self._hub = hub
        self._outbox: set[str] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._present = False
        self._announced = asyncio.Event()

    async def start(self) -> None:
        connection = await self._listen()
        self._task = asyncio.create_task(self._serve(connection), name="adk-confirm-wakeups")

    def send(self, keys: Iterable[str]) -> None:
        self._outbox.update(keys)
        if len(self._outbox) > BACKLOG:
            self._outbox = {EVERYBODY}
        if self._outbox:
            self._changed.set()

    async def announce(self) -> None:
        """Shows others from now on, also after reconnections, that this process exists."""
        self._present = True
        self._changed.set()
        async with asyncio.timeout(PING_SECONDS):
            await self._announced.wait()

    async def close(self) -> None:
        """Sends the remaining notifications, if there is a connection."""
        if self._task is not None:
            self._closing = True
            self._changed.set()
            await asyncio.shield(self._task)

    async def _serve(self, connection: DriverConnection | None) -> None:
        while True:
            try:
                if connection is None:
                    connection = await self._listen()
                    self._hub.wake_all()
                await self._talk(connection)
            except (*BROKEN, StoreError) as error:
                _log.warning("The connection for wake-ups broke (%s); polling until it is back.", error)
            except Exception:  # noqa: BLE001  (nobody awaits this task)
                _log.exception("The connection for wake-ups failed; polling until it is back.")
            self._announced.clear()
            if connection is not None:
                connection.terminate()
                connection = None
            if self._closing:
                return
            await self._pause()

    async def _talk(self, connection: DriverConnection) -> None:
        """Returns when the store closes. Raises if the connection breaks."""
        while True:
            while self._outbox:
                keys = sorted(self._outbox)[:PAYLOAD_TOPICS]
                await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, " ".join(keys), timeout=PING_SECONDS)
                self._outbox.difference_update(keys)
            if self._present and not self._announced.is_set():
                await connection.execute("SELECT pg_advisory_lock_shared($1)", PRESENCE, timeout=PING_SECONDS)
                self._announced.set()
            if self._closing:
                await connection.close(timeout=PING_SECONDS)
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(PING_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                await connection.execute("SELECT 1", timeout=PING_SECONDS)  # a cut cable causes no error by itself
            if connection.is_closed():
                raise ConnectionResetError("closed by the server")

    async def _listen(self) -> DriverConnection:
        connection = await self._connect()
        connection.add_termination_listener(lambda _: self._changed.set())
        own = connection.get_server_pid()

        def heard(_: object, sender: int, __: str, payload: str) -> None:
            if sender != own:  # waiters in this process were woken at the commit
                self._wake(payload.split(" "))

        await connection.add_listener(CHANNEL, heard)
        return connection

    async def _pause(self) -> None:
        self._changed.clear()
        try:
            async with asyncio.timeout(RETRY_SECONDS):
                while not self._closing:
                    await self._changed.wait()
                    self._changed.clear()
        except TimeoutError:
            return

    def _wake(self, keys: list[str]) -> None:
        if EVERYBODY in keys:
            self._hub.wake_all()
        else:
            self._hub.wake(keys)
