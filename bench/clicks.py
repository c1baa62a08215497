"""Clicks over signed HTTP: how many a second, and how long until the ack. Ours against a bare Bolt app that only acks.

    python -m bench.clicks [--clicks 2000] [--waiting 0]

Every click is an Approve on a confirmation of its own, with quorum 2, over 32 connections; the load comes from another
process, as does the local Slack that the cards are drawn in. Then 100 clicks a second for a while: the ack's p99.
With `--waiting 100000` the store is filled first: start to first ack, idle CPU, memory against an empty one.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import hmac
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import aiohttp

SECRET = "bench-signing-secret"
VOTERS = [f"U0VOTER{number:02}" for number in range(24)]
"""Many, since the votes of one person take turns."""

CONFIG = f"""
[agent]
target = "examples.oncall:agent"
[slack]
listen = "127.0.0.1:{{port}}"
[[policy]]
tools = ["*"]
approvers = [{", ".join(f'"user:{voter}"' for voter in VOTERS)}]
quorum = 2
"""


def click(ref: str, number: int) -> bytes:
    voter = VOTERS[number % len(VOTERS)]
    payload = {
        "type": "block_actions",
        "api_app_id": "A0ADKCONFIRM",
        "team": {"id": "T0ACME", "domain": "acme"},
        "user": {"id": voter, "team_id": "T0ACME", "name": voter.lower()},
        "channel": {"id": "C0DEPLOYS", "name": "deploys"},
        "container": {"type": "message", "message_ts": "1.2", "channel_id": "C0DEPLOYS", "thread_ts": "1.1"},
        "message": {"ts": "1.2", "thread_ts": "1.1"},
        "trigger_id": f"{number}.1.x",
        "response_url": "http://127.0.0.1:9/x",
        "actions": [
            {
                "type": "button",
                "action_id": "adk_confirm_approve",
                "block_id": f"b{number}",
                "value": ref,
                "action_ts": f"{number}.000001",
            }
        ],
    }
    return urlencode({"payload": json.dumps(payload)}).encode()


def signed(body: bytes) -> dict[str, str]:
    at = str(int(time.time()))
    mac = hmac.new(SECRET.encode(), b"v0:" + at.encode() + b":" + body, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Slack-Request-Timestamp": at,
        "X-Slack-Signature": f"v0={mac}",
    }


async def send(session: aiohttp.ClientSession, url: str, body: bytes) -> float:
    began = time.perf_counter()
    async with session.post(url, data=body, headers=signed(body)) as answer:
        await answer.read()
        assert answer.status == 200, (answer.status, await answer.text())
    return time.perf_counter() - began


async def throughput(url: str, bodies: list[bytes], connections: int = 32) -> float:
    waiting = iter(bodies)

    async def one(session: aiohttp.ClientSession) -> None:
        for body in waiting:
            await send(session, url, body)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections)) as session:
        began = time.perf_counter()
        await asyncio.gather(*(one(session) for _ in range(connections)))
        return len(bodies) / (time.perf_counter() - began)


async def measured(pid: int, url: str, bodies: list[bytes]) -> tuple[float, float]:
    """Clicks a second, and what each cost its server: a machine that does other things besides changes the first."""
    before, _ = usage(pid)
    rate = await throughput(url, bodies)
    after, _ = usage(pid)
    return rate, (after - before) / len(bodies)


def median(runs: list[tuple[float, float]], part: int) -> float:
    return sorted(run[part] for run in runs)[len(runs) // 2]


async def steady(url: str, bodies: list[bytes], rate: float = 100.0) -> list[float]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as session:
        began, tasks = time.perf_counter(), []
        for number, body in enumerate(bodies):
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            tasks.append(asyncio.create_task(send(session, url, body)))
        return sorted(await asyncio.gather(*tasks))


# The processes under measurement


def bare() -> None:
    from slack_bolt.async_app import AsyncAck, AsyncApp
    from slack_sdk.web.async_client import AsyncWebClient

    client = AsyncWebClient(os.environ["SLACK_BOT_TOKEN"], base_url=os.environ["SLACK_API_URL"])
    app = AsyncApp(client=client, signing_secret=SECRET)

    @app.action("adk_confirm_approve")
    async def ack(ack: AsyncAck) -> None:
        await ack()

    app.start(port=int(sys.argv[2]), path="/slack/events", host="127.0.0.1")


async def slack() -> None:
    from bot.sandbox.server.server import FakeSlack
    from bot.sandbox.workspace.registration import App

    async with FakeSlack(App(signing_secret=SECRET), port=int(sys.argv[2])) as running:
        people = [running.person(id_.lower(), id=id_) for id_ in ("U0ANN", *VOTERS)]
        running.channel("deploys", *people, id="C0DEPLOYS")
        print(running.bot_token, flush=True)
        await asyncio.Event().wait()


async def fill(
    url: str, count: int, *, app: str = "oncall", expires_at: float | None = None, first: int = 0
) -> list[str]:
    """Confirmations that wait, each in a session of its own; what a click on each carries. `first`: their numbers
    begin there."""
    from bot.audit.fingerprint import Seal
    from bot.config.rules import Rules
    from bot.config.settings import parse_settings
    from bot.confirmation.model import Place
    from bot.hosts.host import HostRequest
    from bot.policy.approvers import Person
    from bot.policy.model import CallFacts, Governs
    from bot.store.incoming_words import Heard, hear
    from bot.store.open import open_store
    from bot.store.repository import chain_of, lock_session
    from bot.store.requests import Opening, open_request
    from runtime.store.database import Tx

    policies = parse_settings(CONFIG.format(port=0), {}).policies
    rules = Rules(policies, Seal("not a secret, but long enough", "call"))
    ann = Person("T0ACME", "U0ANN")

    def one(tx: Tx, number: int) -> str:
        from sqlalchemy import update

        from bot.store.tables import mail, sessions, threads

        ts = f"{number}.0"
        heard = Heard(
            app=app, team="T0ACME", enterprise=None, channel="C0DEPLOYS", thread_ts=ts, ts=ts, person=ann, text="x"
        )
        hear(tx, heard)
        key = chain_of(heard.session)
        request = HostRequest(
            request_id=f"adk-{number}",
            call_id=f"c{number}",
            tool="deploy",
            arguments={"service": "checkout", "version": "2.4.1"},
            agent="oncall",
            invocation_id=f"e-{number}",
        )
        governs = policies.resolve(CallFacts(tool="deploy", args=request.arguments))
        if expires_at is not None and isinstance(governs, Governs):
            left = timedelta(seconds=expires_at - tx.now())
            governs = replace(governs, policy=governs.policy.model_copy(update={"expires_after": left}))
        place = Place(channel="C0DEPLOYS", thread_ts=ts, ts="1.2", drawn_version=99)
        at = lock_session(tx, key).place
        opening = Opening(place=at, request=request, asked_by=ann, governs=governs, places=(place,))
        row = open_request(tx, key, opening, rules)
        assert row is not None
        tx.execute(update(mail).where(mail.c.session == key).values(done_at=tx.now()))
        tx.execute(update(sessions).where(sessions.c.key == key).values(due_at=None, told_seq=99))
        tx.execute(update(threads).where(threads.c.session == key).values(due_at=None))
        return f"{row.id}.1"

    def several(tx: Tx, numbers: range) -> list[str]:
        return [one(tx, number) for number in numbers]

    database = await open_store(url, "not a secret, but long enough")
    refs: list[str] = []
    for number in range(first, first + count, 200):
        refs += await database.run(several, range(number, min(number + 200, first + count)))
    await database.close()
    return refs


@asynccontextmanager
async def process(*args: str, env: dict[str, str]) -> AsyncIterator[subprocess.Popen[str]]:
    command = [sys.executable, *args]
    started = await asyncio.to_thread(
        subprocess.Popen, command, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True
    )
    try:
        yield started
    finally:
        started.terminate()
        await asyncio.to_thread(started.wait, 15)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in held]


async def answering(url: str, body: bytes) -> float:
    """Seconds until the first ack."""
    began = time.perf_counter()
    async with aiohttp.ClientSession() as session, asyncio.timeout(60):
        while True:
            try:
                await send(session, url, body)
                return time.perf_counter() - began
            except (aiohttp.ClientError, AssertionError):
                await asyncio.sleep(0.01)


def usage(pid: int) -> tuple[float, float]:
    """CPU seconds and resident megabytes."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def main() -> None:
    parser = argparse.ArgumentParser(description="clicks over signed HTTP")
    parser.add_argument("--clicks", type=int, default=2000)
    parser.add_argument("--waiting", type=int, default=0)
    options = parser.parse_args()
    ports = dict(zip(("slack", "bare", "ours"), free_ports(3), strict=True))
    api = f"http://127.0.0.1:{ports['slack']}/api/"
    with tempfile.TemporaryDirectory() as folder:
        async with process("-m", "bench.clicks", "slack", str(ports["slack"]), env={}) as fake:
            assert fake.stdout is not None
            token = (await asyncio.to_thread(fake.stdout.readline)).strip()
            env = {"SLACK_API_URL": api, "SLACK_BOT_TOKEN": token, "SLACK_SIGNING_SECRET": SECRET}
            await _compare(options, folder, ports, env)
            if options.waiting:
                await _waiting(options.waiting, folder, ports["ours"], env)


async def _compare(options: argparse.Namespace, folder: str, ports: dict[str, int], env: dict[str, str]) -> None:
    store = f"sqlite:///{folder}/x.db"
    refs = await fill(store, options.clicks * 3 + 1001)
    bodies = [click(ref, number) for number, ref in enumerate(refs)]
    config = Path(folder) / "adk-confirm.toml"
    config.write_text(CONFIG.format(port=ports["ours"]))
    ours_env = {**env, "DATABASE_URL": store, "ADK_CONFIRM_SECRET": "not a secret, but long enough"}
    url, bare_url = (f"http://127.0.0.1:{ports[name]}/slack/events" for name in ("ours", "bare"))
    ours, theirs = [], []
    async with (
        process("-m", "bench.clicks", "bare", str(ports["bare"]), env=env) as bolt,
        process("-m", "bot.cli", "serve", "--config", str(config), env=ours_env) as bot,
    ):
        await answering(bare_url, bodies[0])
        await answering(url, bodies.pop())
        for _ in range(3):
            theirs.append(await measured(bolt.pid, bare_url, bodies[: options.clicks]))
            batch, bodies = bodies[: options.clicks], bodies[options.clicks :]
            ours.append(await measured(bot.pid, url, batch))
        acks = await steady(url, bodies[:1000])
    for name, runs in (("ours", ours), ("bare Bolt", theirs)):
        each = ", ".join(f"{rate:.0f}" for rate, _ in runs)
        print(f"{name:10} {median(runs, 0):7.0f} clicks/s ({each}), {median(runs, 1) * 1000:.2f} ms of CPU each")
    print(f"ours / bare = {median(ours, 0) / median(theirs, 0):.2f}")
    p50, p99 = (acks[int(len(acks) * part)] * 1000 for part in (0.5, 0.99))
    print(f"at 100 clicks/s     ack p50 {p50:.1f} ms, p99 {p99:.1f} ms")


async def _waiting(count: int, folder: str, port: int, env: dict[str, str]) -> None:
    config = Path(folder) / "adk-confirm.toml"
    url, memory = f"http://127.0.0.1:{port}/slack/events", {}
    for waiting in (1, count):
        store = f"sqlite:///{folder}/w{waiting}.db"
        refs = await fill(store, waiting)
        ours_env = {**env, "DATABASE_URL": store, "ADK_CONFIRM_SECRET": "not a secret, but long enough"}
        async with process("-m", "bot.cli", "serve", "--config", str(config), env=ours_env) as running:
            first = await answering(url, click(refs[0], 1))
            await asyncio.sleep(3)
            before, _ = usage(running.pid)
            await asyncio.sleep(10)
            after, memory[waiting] = usage(running.pid)
        print(
            f"{waiting:7} waiting: first ack after {first:.2f} s, idle CPU {(after - before) * 10:.2f} %, "
            f"{memory[waiting]:.0f} MB"
        )
    print(f"memory for {count} waiting: {memory[count] - memory[1]:+.0f} MB")


if __name__ == "__main__":
    match sys.argv[1:2]:
        case ["bare"]:
            bare()
        case ["slack"]:
            asyncio.run(slack())
        case _:
            asyncio.run(main())
