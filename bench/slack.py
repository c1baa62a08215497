"""The whole way in Slack: runs `bench.clicks` and `bench.running`, and shows what they say."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

RUNS = {
    "Clicks over signed HTTP, ours and a Bolt app that only acknowledges": ["bench.clicks"],
    "40 requests at once, then 100 clicks a second": [
        "bench.running",
        "--slack",
        "well",
        "--threads",
        "40",
        "--each",
        "1",
    ],
    "The same with 200 requests, while every post to Slack fails": [
        "bench.running",
        "--slack",
        "failing",
        "--threads",
        "40",
        "--each",
        "5",
    ],
}
QUICK = {"bench.clicks": ["--clicks", "100"], "bench.running": ["--threads", "5", "--each", "2"]}
MOST_SECONDS = 240.0


async def measured(folder: Path, postgres: str, *, quick: bool = False) -> str:  # noqa: ARG001  (all parts are called alike)
    told = []
    for title, (module, *options) in RUNS.items():
        said = await _said(module, *options, *(QUICK[module] if quick else ()))
        told.append(f"{title} (`python -m {' '.join([module, *options])}`):\n\n```\n{said}\n```")
    return "\n\n".join(told)


async def _said(*command: str) -> str:
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    running = await asyncio.create_subprocess_exec(sys.executable, "-m", *command, stdout=pipe, stderr=null)
    try:
        out, _ = await asyncio.wait_for(running.communicate(), MOST_SECONDS)
    except TimeoutError:
        running.terminate()
        raise
    if running.returncode:
        raise RuntimeError(f"python -m {' '.join(command)} ended with {running.returncode}: {out.decode()}")
    return out.decode().strip()
