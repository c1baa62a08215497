"""One, two and three processes on one PostgreSQL: cycles a second, and how soon another takes over what one left."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from bench.cycle import Ours, reimburse
from bench.figures import Rounds, table
from bench.scripted_gemini import MODEL, scripted_gemini
from runtime import Agent, Answer, FunctionTool, Runner, ScriptedModel, requests_in
from runtime.models.scripted import call

SESSIONS = 16
APP = "replicas"


async def measured(folder: Path, postgres: str, *, quick: bool = False) -> str:  # noqa: ARG001  (all parts are called alike)
    found = Rounds()
    seconds = 1.0 if quick else 3.0
    for _ in range(1 if quick else 2):
        for replicas in (1, 2, 3):
            found.add(str(replicas), value=await _together(replicas, postgres, seconds))
        found.add("take-over", value=await _taken_over(postgres))
    rows = [[f"{n}", found.shown(f"{n}"), f"{found.median(f'{n}') / found.median('1'):.2f}×"] for n in (1, 2, 3)]
    return "\n\n".join(
        [
            f"Cycles a second of all replicas together, each with {SESSIONS} sessions at once:",
            table(["replicas", "cycles a second", "against one"], rows),
            "PostgreSQL and the replicas share this machine's cores, which is what binds here.",
            f"Take-over: a replica is killed (`kill -9`) while it runs a tool that may be repeated. Another replica "
            f"ends the run {found.shown('take-over', unit=' s')} after that. Its lease lasts 10 s, and each replica "
            "looks every 5 s for what others left.",
        ]
    )


async def _together(replicas: int, url: str, seconds: float) -> float:
    async with AsyncExitStack() as stack:
        started = []
        for number in range(replicas):
            replica = _replica("cycles", url, str(number), str(seconds))
            started.append(await stack.enter_async_context(replica))
        for one in started:
            await _line(one)  # all are ready
        for one in started:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        return sum([float(await _line(one)) for one in started])


async def _taken_over(url: str) -> float:
    async with _replica("attends", url) as other, _replica("begins", url) as dies:
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


async def begins(url: str) -> None:
    async with Runner(_operator(asyncio.Event(), hangs=True), url, app_name=APP) as runner:
        session = f"s{time.time_ns()}"
        running = runner.run(user_id="u", session_id=session, message="restart it")
        (asked,) = [request async for event in running for request in requests_in(event)]
        async for _ in runner.run(user_id="u", session_id=session, message=Answer(asked.id, True)):
            pass


async def attends(url: str) -> None:
    runs = asyncio.Event()
    async with Runner(_operator(runs, hangs=False), url, app_name=APP) as runner:
        _say("ready")
        attending = asyncio.create_task(runner.attend())
        await runs.wait()
        attending.cancel()


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    commands: dict[str, Callable[..., Coroutine[object, object, None]]]
    commands = {"cycles": cycles, "begins": begins, "attends": attends}
    asyncio.run(commands[what](*arguments))
