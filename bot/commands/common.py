"""What the operator's commands share: the settings they read, and how they say things."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from bot.config.settings import DEFAULT_FILE, Settings, load_settings


def add_config(parser: argparse.ArgumentParser, *, again: bool = False) -> None:
    """`again`: of a subcommand, which says nothing where its command has said which file."""
    default = argparse.SUPPRESS if again else Path(DEFAULT_FILE)
    parser.add_argument("--config", type=Path, default=default, metavar="FILE", help=f"default: {DEFAULT_FILE} here")


def port_number(text: str) -> int:
    """An argument's type."""
    try:
        port = int(text)
    except ValueError:
        port = -1
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: give a number from 0 to 65535")
    return port


def settings_of(args: argparse.Namespace) -> Settings:
    return load_settings(args.config, os.environ)


def now() -> datetime:
    return datetime.now(UTC)


def tell(*lines: str) -> None:
    tell_all([f"{line}\n" for line in lines], standard_output())


def standard_output() -> TextIO:
    """In a terminal that lacks a letter, the letter is spelled; nothing fails for it."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return sys.stdout


def tell_all(parts: Iterable[str], out: TextIO) -> bool:
    """False: the reader has seen enough (`| head`), which is no error."""
    try:
        for part in parts:
            out.write(part)
        out.flush()
    except BrokenPipeError:
        # Python flushes standard output once more at its end, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True
