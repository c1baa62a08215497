"""`adk-confirm demo`: a local workspace to try everything in, with no Slack, no API key and no database."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import signal
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Mapping
from pathlib import Path

import click

from adk_confirm.bot.ops.command import FILE, PORT
from adk_confirm.bot.ops.setup import settings_for
from adk_confirm.demo.stage import Demo, running_demo
from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.rest.listening import why_not_listening

DEMO_PORT = 3030

_SHOWN = """
  adk-confirm's sandbox: {url}

  {about}
  This stands in for Slack on this machine only. It is not for production, and forgets everything when it ends.
  Ctrl-C ends it.
"""


_TOUR = "The page says what to do next, step by step."
_OWN = """\
Your agent, with the policies of {file}. A change of its policies holds at once.
{parts}

  Other commands, such as check, explain and audit, in another terminal:
    export {variables}
    adk-confirm pending --config {file}
  To run `adk-confirm serve` there, choose “Crash now” under “Bot on” on the page first.
"""
_POINTS = ("SLACK_API_URL", "SLACK_BOT_TOKEN", "DATABASE_URL", "ADK_CONFIRM_SECRET")


@click.command()
@click.option("--config", type=FILE, help="Settings of your own agent, to try it with its policies.")
@click.option("--agent", metavar="MODULE:NAME", help="Your own agent, with a policy for each tool that asks.")
@click.option("--port", type=PORT, default=DEMO_PORT, show_default=True, help="The page's port; 0 takes a free one.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option("--check", is_flag=True, help="Walk through one confirmation without a browser, and end.")
def demo(config: Path | None, agent: str | None, port: int, no_browser: bool, check: bool) -> int:
    """Try everything in a local workspace in your browser: no Slack, no API key, no database.

    Without --config and --agent an example's agent is there, and a tour.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("adk_confirm.sandbox.page.page").setLevel(logging.ERROR)  # what we print includes its warning
    if sum((config is not None, agent is not None, check)) > 1:
        raise click.UsageError("Give only one of --config, --agent and --check.")
    with tempfile.TemporaryDirectory() as folder:
        if agent is not None:
            config = Path(folder) / "adk-confirm.toml"
            config.write_text(settings_for(agent), encoding="utf-8")
        if check:
            return asyncio.run(_check())
        try:
            return asyncio.run(_show(port, config, browser=not no_browser))
        except OSError as error:
            why = why_not_listening(error, "127.0.0.1", port)
            raise ConfirmError(f"{why} With make: `make demo PORT={port + 1}`.") from error


async def _show(port: int, own: Path | None, *, browser: bool) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with running_demo(port, own=own) as demo:
        about = _TOUR
        if own is not None:
            named = {name: demo.bot.environment[name] for name in _POINTS} | {"SLACK_APP_TOKEN": demo.slack.app_token}
            variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in named.items())
            parts = "\n".join(f"    {part}" for part in demo.parts)
            about = _OWN.format(file=own, parts=parts, variables=variables)
        print(_SHOWN.format(url=demo.url, about=about), flush=True)
        if browser and has_screen(os.environ, sys.platform):
            # In a thread, since some browsers stay in the foreground until they are closed.
            threading.Thread(target=webbrowser.open, args=(demo.url,), daemon=True).start()
        elif browser:
            print("  No browser can be opened here: open the address yourself.\n", flush=True)
        await stop.wait()
    return 0


def has_screen(environment: Mapping[str, str], platform: str) -> bool:
    """Whether a browser that opens here is visible. Without a display Python would open a text browser in the terminal
    that shows the address."""
    if environment.get("BROWSER"):
        return True
    if environment.get("CI") or environment.get("SSH_CONNECTION"):
        return False
    return platform in ("darwin", "win32") or bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")


async def _check() -> int:
    """Walks through one confirmation: ask, be refused, approve twice, run, and read the result in the thread."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "tools.log"
        os.environ["ADK_CONFIRM_DEMO_LOG"] = str(log)
        for key in _KEYS:  # without a model the walk is always the same
            os.environ.pop(key, None)
        async with running_demo(port=0) as demo:
            await _walk(demo)
        ran = log.read_text(encoding="utf-8").splitlines()
    if len(ran) != 1:
        raise ConfirmError(f"The deployment ran {len(ran)} times, and should have run once.")
    print("The demo works: asked, refused to an outsider, approved by two, ran once, reported in the thread.")
    return 0


async def _walk(demo: Demo) -> None:
    ana, ben, chris, olga = (demo.people[name] for name in ("ana", "ben", "chris", "olga"))
    said = await ana.says("@adk-confirm deploy checkout 2.4.1 to prod", demo.channel)
    card = await ana.finds("to prod?", demo.channel, thread=said)
    await olga.clicks(card, "Approve")
    await olga.gets_modal("you are not an approver")
    await ben.clicks(card, "Approve")
    await chris.finds("Needs 1 more approval", demo.channel, thread=said)
    await chris.clicks(chris.now(card), "Approve")
    await ana.finds("Done: Deploy", demo.channel, thread=said)
