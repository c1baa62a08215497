"""Clicks over signed HTTP: how many a second, and how long until the ack. Ours against a bare Bolt app that only acks.

Every click approves a confirmation of its own, with quorum 2, over 32 connections. The load and the local Slack are in
other processes. Then come 100 clicks a second for a while, for the ack's p99.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlencode

import aiohttp

from bench.figures import Rounds
from bench.filling import CONFIG, KEY, VOTERS, fill
from bench.processes import first_line, free_ports, process, usage

SECRET = "bench-signing-secret"
OURS, BARE = "ours", "a bare Bolt app"
_RATE = 100.0


@dataclass(frozen=True)
class ClickFigures:
    """For `OURS` and `BARE`: "rate" in clicks a second, and "cpu" in seconds a click. `acks`: our ack times, sorted, at
    a hundred clicks a second."""

    found: Rounds
    acks: list[float]


def click(ref: str, number: int, voters: list[str] = VOTERS) -> bytes:
    voter = voters[number % len(voters)]
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
    """Sends a click. Returns the seconds until the ack."""
    began = time.perf_counter()
    async with session.post(url, data=body, headers=signed(body)) as answer:
        await answer.read()
        assert answer.status == 200, (answer.status, await answer.text())
    return time.perf_counter() - began


async def throughput(url: str, bodies: list[bytes], connections: int = 32) -> float:
    """Measures clicks a second."""
    waiting = iter(bodies)

    async def one(session: aiohttp.ClientSession) -> None:
        for body in waiting:
            await send(session, url, body)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections)) as session:
        began = time.perf_counter()
        await asyncio.gather(*(one(session) for _ in range(connections)))
        return len(bodies) / (time.perf_counter() - began)


async def compared(folder: Path, clicks: int) -> ClickFigures:
    """Measures three rounds of this many clicks for each side, in turn."""
    store, found = f"sqlite:///{folder / 'clicks.db'}", Rounds()
    refs = await fill(store, clicks * 3 + 1 + clicks // 2)
    bodies = [click(ref, number) for number, ref in enumerate(refs)]
    slack_port, bare_port, port = free_ports(3)
    config = folder / "clicks.toml"
    await asyncio.to_thread(config.write_text, CONFIG.format(port=port))
    bare_url, url = (f"http://127.0.0.1:{each}/slack/events" for each in (bare_port, port))
    async with process("-m", "bench.clicks", "slack", str(slack_port), env={}) as slack:
        env = {
            "SLACK_API_URL": f"http://127.0.0.1:{slack_port}/api/",
            "SLACK_BOT_TOKEN": await first_line(slack),
            "SLACK_SIGNING_SECRET": SECRET,
            "DATABASE_URL": store,
            "ADK_CONFIRM_SECRET": KEY,
        }
        async with (
            process("-m", "bench.clicks", "bare", str(bare_port), env=env) as bolt,
            process("-m", "adk_confirm.bot.cli", "serve", "--config", str(config), env=env) as bot,
        ):
            await _until_answering(bare_url, bodies[0])
            await _until_answering(url, bodies.pop())
            for _ in range(3):
                await _round(found, BARE, bolt.pid, bare_url, bodies[:clicks])
                await _round(found, OURS, bot.pid, url, bodies[:clicks])
                bodies = bodies[clicks:]
            return ClickFigures(found, await _steady(url, bodies))


async def _round(found: Rounds, name: str, pid: int, url: str, bodies: list[bytes]) -> None:
    """One round: the rate, and the CPU time, which depends less on what else the machine does."""
    before, _ = usage(pid)
    found.add(name, "rate", value=await throughput(url, bodies))
    after, _ = usage(pid)
    found.add(name, "cpu", value=(after - before) / len(bodies))


async def _steady(url: str, bodies: list[bytes]) -> list[float]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as session:
        began, tasks = time.perf_counter(), []
        for number, body in enumerate(bodies):
            await asyncio.sleep(max(0.0, began + number / _RATE - time.perf_counter()))
            tasks.append(asyncio.create_task(send(session, url, body)))
        return sorted(await asyncio.gather(*tasks))


async def _until_answering(url: str, body: bytes) -> None:
    """Waits for the first ack."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(60):
        while True:
            try:
                await send(session, url, body)
            except (aiohttp.ClientError, AssertionError):
                await asyncio.sleep(0.01)
            else:
                return


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
    from adk_confirm.demo.slack_app import our_app
    from adk_confirm.sandbox.server.server import FakeSlack

    async with FakeSlack(replace(our_app(), signing_secret=SECRET), port=int(sys.argv[2])) as running:
        people = [running.person(id_.lower(), id=id_) for id_ in ("U0ANN", *VOTERS)]
        running.channel("deploys", *people, id="C0DEPLOYS")
        print(running.bot_token, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[1] == "bare":
        bare()
    else:
        asyncio.run(slack())
