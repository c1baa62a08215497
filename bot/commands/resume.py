"""`adk-confirm resume`: what `pause` held back goes on."""

from __future__ import annotations

import argparse
import asyncio

from bot.commands import words
from bot.commands.common import add_config, settings_of, tell
from bot.operations.operate import operate, resume_command


def configure(parser: argparse.ArgumentParser) -> None:
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    done = asyncio.run(operate(settings_of(args), "resume", {}, resume_command))
    tell(words.RESUMED[bool(done["changed"])])
    return 0
