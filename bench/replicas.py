"""One, two and three processes on one PostgreSQL: cycles a second, timers that are due at once, and take-overs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import psycopg

from adk_confirm import Agent, Answer, FunctionTool, Runner, ScriptedModel, requests_in
from adk_confirm.runtime.models.scripted import call
from bench.clicks import SECRET
from bench.cycle import Ours, reimburse
from bench.figures import Rounds, number, table
from bench.filling import CONFIG, KEY, fill
from bench.processes import busy_seconds, cores, first_line, free_ports, process, until_ready, usage
from bench.scripted_gemini import MODEL, scripted_gemini

SESSIONS = 16
APP = "replicas"
REPLICAS = (1, 2, 3)
TIMERS, FIRED_WITHIN = 300, 120.0


async def measured(folder: Path, postgres: str, *, quick: bool = False) -> str:
    found = Rounds()
    seconds, timers = (1.0, 50) if quick else (3.0, TIMERS)
    for _ in range(1 if quick else 2):
        for replicas in REPLICAS:
            await _measure_cycles(found, replicas, postgres, seconds)
        found.add("take-over", value=await _measure_take_over(postgres))
    for place, replicas in enumerate(REPLICAS):
        took = await _timers(folder, postgres, replicas, range(place * timers, (place + 1) * timers))
        found.add(f"timers {replicas}", value=took)
    rows = [
        [
            f"{n}",
            found.shown(f"{n}"),
            f"{found.median(f'{n}') / found.median('1'):.2f}×",
            f"{found.median(f'replicas {n}'):.2f}",
            f"{found.median(f'server {n}'):.2f}",
            found.shown(f"timers {n}", unit=" s"),
        ]
        for n in REPLICAS
    ]
    heads = ("replicas", "cycles a second", "against one", "cores: replicas", "cores: PostgreSQL", f"{timers} timers")
    return "\n\n".join(
        [
            f"Cycles a second of all replicas together, each with {SESSIONS} sessions at once, and the cores that they "
            f"and PostgreSQL keep busy meanwhile. {timers} confirmations then expire at one moment; the last column "
            "says how long after that moment the last of them is recorded as expired.",
            table(heads, rows),
            _limiting(found),
            "Take-over: a replica is killed (`kill -9`) while it runs a tool that may be repeated. Another replica "
            f"ends the run {found.shown('take-over', unit=' s')} after that. Its lease lasts 10 s, and each replica "
            "looks every 5 s for work that others left.",
        ]
    )


def _limiting(found: Rounds) -> str:
    """What limits the rate, judged by how many cores were busy."""
    sentences = []
    for n in (REPLICAS[0], REPLICAS[-1]):
        mine, server = found.median(f"replicas {n}"), found.median(f"server {n}")
        if mine + server > 0.85 * cores():
            part = server / (mine + server) * 100
            what = f"the machine: all of its {cores()} cores are busy, {number(part)} % of that with PostgreSQL"
        elif mine > 0.85 * n:
            what = "the one core that a Python process can use"
        else:
            what = f"the disk: commits are waited for, and only {number(mine + server)} of {cores()} cores are busy"
        sentences.append(f"What limits {n} is {what}.")
    return " ".join(sentences)


async def _measure_cycles(found: Rounds, replicas: int, url: str, seconds: float) -> None:
    async with AsyncExitStack() as stack:
        starting = [_replica("cycles", url, str(n), str(seconds)) for n in range(replicas)]
        started = [await stack.enter_async_context(one) for one in starting]
        for one in started:
            await _line(one)  # all are ready
        before, busy = sum(usage(one.pid)[0] for one in started), busy_seconds()
        began = time.monotonic()
        for one in started:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        found.add(f"{replicas}", value=sum([float(await _line(one)) for one in started]))
        took = time.monotonic() - began
        mine = (sum(usage(one.pid)[0] for one in started) - before) / took
        found.add(f"replicas {replicas}", value=mine)
        found.add(f"server {replicas}", value=max(0.0, (busy_seconds() - busy) / took - mine))


async def _timers(folder: Path, url: str, replicas: int, numbers: range) -> float:
    """Lets confirmations expire at the same moment, with this many replicas. Returns the seconds until the last has
    expired."""
    some = max(10, len(numbers) // 10)
    await fill(url, 1, first=10_000 * (replicas + 1) - 1)  # makes the tables, which is not timed
    began = time.time()
    await fill(url, some, first=10_000 * (replicas + 1))  # tells how long it takes
    due = time.time() + 5 + replicas + 1.5 * (time.time() - began) * len(numbers) / some
    await fill(url, len(numbers), expires_at=due, first=numbers.start)
    slack_port, *ports = free_ports(1 + replicas)
    async with AsyncExitStack() as stack:
        slack = await stack.enter_async_context(process("-m", "bench.clicks", "slack", str(slack_port), env={}))
        env = {
            "SLACK_API_URL": f"http://127.0.0.1:{slack_port}/api/",
            "SLACK_BOT_TOKEN": await first_line(slack),
            "SLACK_SIGNING_SECRET": SECRET,
            "ADK_CONFIRM_SECRET": KEY,
            "DATABASE_URL": url,
        }
        for port in ports:
            config = folder / f"{port}.toml"
            await asyncio.to_thread(config.write_text, CONFIG.format(port=port))
            await stack.enter_async_context(
                process("-m", "adk_confirm.bot.cli", "serve", "--config", str(config), env=env)
            )
        await asyncio.gather(*(until_ready(port) for port in ports))
        due = max(due, time.time())
        await asyncio.sleep(due - time.time())
        return await _last_expired(url, len(numbers) + numbers.start) - due


async def _last_expired(url: str, count: int) -> float:
    """Waits until this many have expired. Returns when that was."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        async with asyncio.timeout(FIRED_WITHIN):
            while True:
                found = await connection.execute("SELECT count(*), max(at) FROM bot_ledger WHERE kind = 'expired'")
                expired, last = await found.fetchone() or (0, 0.0)
                if expired >= count:
                    return float(last)
                await asyncio.sleep(0.2)


async def _measure_take_over(url: str) -> float:
    app = f"{APP}-{time.time_ns()}"  # of its own: what an earlier round left is no part of this one
    async with _replica("attends", url, app) as other, _replica("begins", url, app) as dies:
        await _line(other)
        await _line(dies)  # its tool runs
        dies.kill()
        killed = time.monotonic()
        await _line(other)  # it has run the tool again
        return time.monotonic() - killed


@asynccontextmanager
async def _replica(*arguments: str) -> AsyncIterator[subprocess.Popen[str]]:
    command, pipe = [sys.executable, "-m", "bench.replicas", *arguments], subprocess.PIPE
    started = await asyncio.to_thread(subprocess.Popen, command, stdin=pipe, stdout=pipe, text=True)
    try:
        yield started
    finally:
        started.kill()
        await asyncio.to_thread(started.wait)


async def _line(of: subprocess.Popen[str]) -> str:
    assert of.stdout is not None
    line = await asyncio.wait_for(asyncio.to_thread(of.stdout.readline), 120)
    assert line, "a replica ended before its time"
    return line.strip()


# In the replicas


def _say(word: object) -> None:
    print(word, flush=True)


async def cycles(url: str, number: str, seconds: str) -> None:
    agent = Agent("clerk", MODEL, tools=[FunctionTool(reimburse, require_confirmation=True)])
    with scripted_gemini():
        async with Runner(agent, url, app_name=f"{APP}-{number}-{time.time_ns()}") as runner:
            sessions = [await Ours("ours", runner).session(0) for _ in range(SESSIONS)]
            await asyncio.gather(*(cycle() for cycle in sessions))
            _say("ready")
            await asyncio.to_thread(sys.stdin.readline)
            began = time.monotonic()

            async def several(number: int) -> int:
                done = 0
                while time.monotonic() - began < float(seconds):
                    await sessions[number]()
                    done += 1
                return done

            done = await asyncio.gather(*(several(number) for number in range(SESSIONS)))
            _say(sum(done) / (time.monotonic() - began))


def _operator(runs: asyncio.Event, *, hangs: bool) -> Agent:
    async def restart(service: str) -> str:
        """Restarts a service."""
        _say("runs")
        runs.set()
        if hangs:
            await asyncio.Event().wait()
        return f"{service} restarted"

    tool = FunctionTool(restart, require_confirmation=True, idempotent=True)
    return Agent("operator", ScriptedModel(call("restart", service="checkout"), "Restarted."), tools=[tool])


async def begins(url: str, app: str) -> None:
    async with Runner(_operator(asyncio.Event(), hangs=True), url, app_name=app) as runner:
        session = f"s{time.time_ns()}"
        running = runner.run(user_id="u", session_id=session, message="restart it")
        (asked,) = [request async for event in running for request in requests_in(event)]
        async for _ in runner.run(user_id="u", session_id=session, message=Answer(asked.id, True)):
            pass


async def attends(url: str, app: str) -> None:
    runs = asyncio.Event()
    async with Runner(_operator(runs, hangs=False), url, app_name=app) as runner:
        _say("ready")
        attending = asyncio.create_task(runner.attend())
        await runs.wait()
        attending.cancel()


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    commands: dict[str, Callable[..., Coroutine[object, object, None]]]
    commands = {"cycles": cycles, "begins": begins, "attends": attends}
    asyncio.run(commands[what](*arguments))
