"""`adk-confirm demo`: the whole story in a local workspace, with no Slack, no API key and no database."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Mapping
from pathlib import Path

from bot.commands import words
from bot.commands.common import port_number
from bot.demo.stage import PORT, Demo, staged
from runtime.errors import ConfirmError
from runtime.rest.listening import CannotServe


class DemoFailed(ConfirmError):
    """The demo, or its walk through one confirmation, did not come to its end."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port", type=port_number, default=PORT, help="where the page is; default: %(default)s; 0 takes a free one"
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--check", action="store_true", help="walk one confirmation without a browser, and end")


def run(args: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("bot.sandbox.page.page").setLevel(logging.ERROR)  # its warning stands in what we print
    if args.check:
        return asyncio.run(_check())
    try:
        return asyncio.run(_show(args.port, browser=not args.no_browser))
    except CannotServe as error:
        raise DemoFailed(words.DEMO_ELSEWHERE.format(why=error, port=args.port + 1)) from error


async def _show(port: int, *, browser: bool) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with staged(port) as demo:
        print(words.DEMO.format(url=demo.url), flush=True)
        if browser and has_screen(os.environ, sys.platform):
            # A thread that holds nothing up: some browsers stay in the foreground until they are closed.
            threading.Thread(target=webbrowser.open, args=(demo.url,), daemon=True).start()
        elif browser:
            print(words.DEMO_UNSEEN, flush=True)
        await stop.wait()
    return 0


def has_screen(environment: Mapping[str, str], platform: str) -> bool:
    """Whether a browser that opens here is one that somebody sees. Without a display Python would take a text browser,
    into the terminal that shows the address."""
    if environment.get("BROWSER"):
        return True
    if environment.get("CI") or environment.get("SSH_CONNECTION"):
        return False
    return platform in ("darwin", "win32") or bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


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
