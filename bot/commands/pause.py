"""`adk-confirm pause`: no call begins until `resume`."""

from __future__ import annotations

import argparse
import asyncio

from bot.commands import words
from bot.commands.common import add_config, settings_of, tell
from bot.operations.operate import operate, pause_command


def configure(parser: argparse.ArgumentParser) -> None:
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    done = asyncio.run(operate(settings_of(args), "pause", {}, pause_command))
    tell(words.PAUSED[bool(done["changed"])])
    return 0
