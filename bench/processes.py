"""Processes under measurement: starts them, measures them and ends them."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import aiohttp

IDLE = 0.05
"""A process that uses less of a core than this counts as idle."""


@asynccontextmanager
async def process(*args: str, env: dict[str, str]) -> AsyncIterator[subprocess.Popen[str]]:
    """Runs Python with these arguments until the block ends. Its logs are dropped."""
    command, pipe, null = [sys.executable, *args], subprocess.PIPE, subprocess.DEVNULL
    started = await asyncio.to_thread(
        subprocess.Popen, command, env={**os.environ, **env}, stdout=pipe, stderr=null, text=True
    )
    try:
        yield started
    finally:
        started.terminate()
        try:
            await asyncio.to_thread(started.wait, 15)
        except subprocess.TimeoutExpired:
            started.kill()
            await asyncio.to_thread(started.wait)


async def first_line(started: subprocess.Popen[str]) -> str:
    """The first line that it prints."""
    assert started.stdout is not None
    line = (await asyncio.to_thread(started.stdout.readline)).strip()
    assert line, "a process ended before it said anything"
    return line


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in held]


def usage(pid: int) -> tuple[float, float]:
    """The process's CPU seconds and resident megabytes."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def until_idle(pid: int, within: float) -> float:
    """Waits until the process is idle, and returns the CPU seconds that it used meanwhile."""
    began, _ = usage(pid)
    before = began
    for _ in range(int(within)):
        await asyncio.sleep(1.0)
        now, _ = usage(pid)
        if now - before < IDLE:
            break
        before = now
    return usage(pid)[0] - began


async def until_ready(port: int, within: float = 60.0) -> None:
    """Waits until a service reports that it is ready."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(within):
        while not await _is_ready(session, port):
            await asyncio.sleep(0.02)


async def _is_ready(session: aiohttp.ClientSession, port: int) -> bool:
    try:
        async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


def cores() -> int:
    return len(os.sched_getaffinity(0))


def busy_seconds() -> float:
    """How many seconds all cores of this machine together were busy since it started."""
    user, nice, system, _, _, irq, soft, *_ = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")
