"""Measures what this machine can do at most: fsyncs, bare transactions, bare HTTP with Slack's signature check."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg

from adk_confirm.runtime.store.database import Database, Tx
from bench.clicks import SECRET, click, throughput
from bench.figures import Rounds, table
from bench.processes import first_line, free_ports, process

_DISK = "fsyncs of 4 KB, one after another"
_SQLITE = "SQLite with `synchronous=FULL`: one insert a transaction"
_OURS = "the same through our `Database.run`, one caller"
_GROUP = "the same, 16 callers (they share commits)"
_POSTGRES = "PostgreSQL by psycopg: one insert a transaction"
_HTTP = "requests to a bare aiohttp handler that checks Slack's signature, 32 connections"


async def measured(folder: Path, postgres: str, *, quick: bool = False) -> str:
    seconds, found = (0.3 if quick else 1.0), Rounds()
    for _ in range(1 if quick else 3):
        found.add(_DISK, value=_fsyncs(folder / "disk", seconds))
        found.add(_SQLITE, value=_sqlite(folder / "bare.db", seconds))
        async with _database(f"sqlite:///{folder / 'ours.db'}") as database:
            found.add(_OURS, value=await _ours(database, seconds, 1))
            found.add(_GROUP, value=await _ours(database, seconds, 16))
        found.add(_POSTGRES, value=await _postgres(postgres, seconds))
        found.add(_HTTP, value=await _http(200 if quick else 2_000))
    rows = [[name, found.shown(name)] for name in (_DISK, _SQLITE, _OURS, _GROUP, _POSTGRES, _HTTP)]
    return "\n\n".join(
        [
            table(["", "a second"], rows),
            "A cycle of the runtime has six transactions (see [the runtime](runtime.md#what-is-written-when)), so one "
            f"session alone cannot do more than {found.median(_SQLITE) / 6:,.0f} cycles a second on this disk. More "
            "sessions at once share commits. Of the CPU of a cycle the event loop takes a little more than half with "
            "one session and almost two thirds with 16, and the store's thread the rest. Of the event loop's part "
            "a sixth is the calls to the model; the rest is spread over events, calls and their JSON, a few percent "
            "each. In the store's thread more than half is what the bare statements and their fsyncs take, and the "
            "rest is Python around them.",
        ]
    )


def _rate(step: Callable[[int], object], seconds: float) -> float:
    began, number = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        step(number)
        number += 1
    return number / (time.perf_counter() - began)


def _fsyncs(path: Path, seconds: float) -> float:
    with path.open("wb", buffering=0) as file:

        def step(_: int) -> None:
            file.write(bytes(4096))
            os.fsync(file.fileno())

        return _rate(step, seconds)


def _sqlite(path: Path, seconds: float) -> float:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS bare (n INTEGER)")
    try:
        return _rate(lambda n: connection.execute("INSERT INTO bare VALUES (?)", [n]), seconds)
    finally:
        connection.close()


@asynccontextmanager
async def _database(url: str) -> AsyncIterator[Database]:
    database = await Database.open(url)
    try:
        await database.run(lambda tx: tx.run("CREATE TABLE IF NOT EXISTS bare (n INTEGER)"))
        yield database
    finally:
        await database.close()


async def _ours(database: Database, seconds: float, callers: int) -> float:
    def insert(tx: Tx) -> None:
        tx.run("INSERT INTO bare VALUES (1)")

    began = time.perf_counter()

    async def call() -> int:
        done = 0
        while time.perf_counter() - began < seconds:
            await database.run(insert)
            done += 1
        return done

    done = await asyncio.gather(*(call() for _ in range(callers)))
    return sum(done) / (time.perf_counter() - began)


async def _postgres(url: str, seconds: float) -> float:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("CREATE TABLE IF NOT EXISTS bare (n INTEGER)")
        began, number = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            await connection.execute("INSERT INTO bare VALUES (%s)", [number])
            number += 1
        return number / (time.perf_counter() - began)


async def _http(requests: int) -> float:
    (port,) = free_ports(1)
    async with process("-m", "bench.limit", "serve", str(port), env={}) as server:
        await first_line(server)
        bodies = [click("c.1", number) for number in range(requests)]
        return await throughput(f"http://127.0.0.1:{port}/slack/events", bodies)


def serve(port: int) -> None:
    from aiohttp import web
    from slack_sdk.signature import SignatureVerifier

    verifier = SignatureVerifier(SECRET)

    async def handle(request: web.Request) -> web.Response:
        valid = verifier.is_valid_request(await request.read(), dict(request.headers))
        return web.Response(status=200 if valid else 401)

    app = web.Application()
    app.router.add_post("/slack/events", handle)
    web.run_app(app, host="127.0.0.1", port=port, print=lambda _: print("ready", flush=True))


if __name__ == "__main__":
    serve(int(sys.argv[2]))
