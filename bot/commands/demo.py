"""`adk-confirm demo`: the whole story in a local workspace, with no Slack, no API key and no database."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import tempfile
import webbrowser
from pathlib import Path

from bot.demo.stage import PORT, Demo, staged
from runtime.errors import ConfirmError


class DemoFailed(ConfirmError):
    """The walk through one confirmation did not come to its end."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=PORT, help="where the page is; default: %(default)s")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--check", action="store_true", help="walk one confirmation without a browser, and end")


def run(args: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    if args.check:
        return asyncio.run(_check())
    return asyncio.run(_show(args.port, browser=not args.no_browser))


async def _show(port: int, *, browser: bool) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with staged(port) as demo:
        print(f"\n  adk-confirm's sandbox: {demo.url}\n")
        print("  Say “@adk-confirm deploy checkout 2.4.1 to prod” as ana, then be ben, and approve it.")
        print("  Everything here is local and forgotten at the end. Ctrl-C ends it.\n", flush=True)
        if browser:
            await asyncio.to_thread(webbrowser.open, demo.url)
        await stop.wait()
    return 0


async def _check() -> int:
    """Ask, be refused, approve twice, run, and read it in the thread."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "tools.log"
        os.environ["ADK_CONFIRM_DEMO_LOG"] = str(log)
        async with staged(port=0) as demo:
            await _walk(demo)
        ran = log.read_text(encoding="utf-8").splitlines()
    if len(ran) != 1:
        raise DemoFailed(f"The deployment ran {len(ran)} times, and should have run once.")
    print("The demo works: asked, refused to an outsider, approved by two, ran once, told in the thread.")
    return 0


async def _walk(demo: Demo) -> None:
    ana, ben, chris, olga = (demo.people[name] for name in ("ana", "ben", "chris", "olga"))
    said = await ana.says("@adk-confirm deploy checkout 2.4.1 to prod", demo.channel)
    card = await ana.finds("Approve deploy?", demo.channel, thread=said, timeout=20)
    await olga.clicks(card, "Approve")
    await olga.finds("You can't decide this one", demo.channel, thread=said, timeout=20)
    await ben.clicks(card, "Approve")
    await chris.finds("1 of 2", demo.channel, thread=said, timeout=20)
    await chris.clicks(chris.now(card), "Approve")
    await ana.finds("deploy is done", demo.channel, thread=said, timeout=20)
