"""Notifications between replicas: one connection that listens, announces what was committed here, and shows that this
replica exists.

`NOTIFY` inside a transaction takes a lock of the whole database server at the commit. So topics are collected, and sent
after the commit, several together in one statement. A notification that is lost with a connection or a process costs
only time: after every reconnection all waiters look again, and each of them also polls slowly.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable

import psycopg

from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.store.wakeups import Hub

CHANNEL = "adk_confirm"
EVERYBODY = "*"
PAYLOAD_TOPICS = 400  # of 17 bytes each: PostgreSQL takes payloads of less than 8000 bytes
BACKLOG = 4000
PRESENCE = int.from_bytes(b"adk-conf", signed=True)
"""An advisory lock: shared by all processes that use the store, taken exclusively by one that is alone."""
CLOSING_SECONDS = 30.0
RETRY_SECONDS = 1.0

_log = logging.getLogger(__name__)


class WakeupConnection:
    def __init__(self, connect: Callable[[], Awaitable[psycopg.AsyncConnection]], hub: Hub) -> None:
        self._connect = connect
        self._hub = hub
        self._outbox: set[str] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._present = False
        self._announced = asyncio.Event()
        self._arrivals = -1

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
        async with asyncio.timeout(CLOSING_SECONDS):
            await self._announced.wait()

    async def close(self) -> None:
        """Sends the remaining notifications, if there is a connection."""
        if self._task is not None:
            self._closing = True
            self._changed.set()
            await asyncio.wait({self._task}, timeout=CLOSING_SECONDS)

    async def _serve(self, connection: psycopg.AsyncConnection | None) -> None:
        while True:
            try:
                if connection is None:
                    connection = await self._listen()
                    self._hub.wake_all()
                await self._talk(connection)
            except (OSError, psycopg.Error, StoreError) as error:
                _log.warning("The connection for wake-ups broke (%s); polling until it is back.", error)
            except Exception:  # noqa: BLE001  (nobody awaits this task)
                _log.exception("The connection for wake-ups failed; polling until it is back.")
            self._announced.clear()
            if connection is not None:
                asyncio.get_running_loop().remove_reader(self._arrivals)
                os.close(self._arrivals)
                await connection.close()
                connection = None
            if self._closing:
                return
            await self._pause()

    async def _talk(self, connection: psycopg.AsyncConnection) -> None:
        """Returns when the store closes. Raises if the connection breaks."""
        while True:
            self._changed.clear()
            connection.pgconn.consume_input()
            while (heard := connection.pgconn.notifies()) is not None:
                self._heard(connection, heard.be_pid, heard.extra.decode())
            while self._outbox:
                keys = sorted(self._outbox)[:PAYLOAD_TOPICS]
                await connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, " ".join(keys)))
                self._outbox.difference_update(keys)
            if self._present and not self._announced.is_set():
                await connection.execute("SELECT pg_advisory_lock_shared(%s)", (PRESENCE,))
                self._announced.set()
            if self._closing:
                return
            await self._changed.wait()

    async def _listen(self) -> psycopg.AsyncConnection:
        connection = await self._connect()
        connection.add_notify_handler(lambda heard: self._heard(connection, heard.pid, heard.payload))
        await connection.execute(f"LISTEN {CHANNEL}")
        # The driver itself reads only while it waits for an answer.
        self._arrivals = os.dup(connection.fileno())
        asyncio.get_running_loop().add_reader(self._arrivals, self._changed.set)
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

    def _heard(self, connection: psycopg.AsyncConnection, sender: int, payload: str) -> None:
        if sender == connection.pgconn.backend_pid:
            return  # waiters in this process were woken at the commit
        keys = payload.split(" ")
        if EVERYBODY in keys:
            self._hub.wake_all()
        else:
            self._hub.wake(keys)
