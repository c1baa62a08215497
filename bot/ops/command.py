"""What the commands share: the options that several of them have, and how they print.

    @click.command()
    @options(json=True)
    def pending(call: CommandLine) -> int: ...

Modules of commands import at their top only what `--help` needs. The rest is imported inside the functions, because it
takes half a second to load.
"""

from __future__ import annotations

import asyncio
import getpass
import io
import json as json_module
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, TextIO, TypeVar

import click

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from bot.config.settings import Settings
    from bot.ops.operate import Operator
    from runtime.jsontypes import JsonObject
    from runtime.store.database import Database

DEFAULT_FILE = "adk-confirm.toml"
PORT = click.IntRange(0, 65535)
FILE = click.Path(path_type=Path)

R = TypeVar("R")


@dataclass
class CommandLine:
    """One call of a command: its common options, and what they open."""

    config: Path
    json: bool = False
    by: str | None = None
    reason: str | None = None
    clock: Callable[[], float] | None = None

    @cached_property
    def settings(self) -> Settings:
        from bot.config.settings import load_settings

        return load_settings(self.config, os.environ)

    def now(self) -> datetime:
        return datetime.now(UTC) if self.clock is None else datetime.fromtimestamp(self.clock(), UTC)

    def reading(self) -> AbstractAsyncContextManager[Database]:
        """The store, read-only."""
        from bot.ops.operate import open_for_reading

        return open_for_reading(self.settings.store_url, self.clock)

    @property
    def operator(self) -> Operator:
        from bot.ops.operate import Operator

        return Operator.named(self.by, self.reason)

    def change(self, work: Callable[[Database], Awaitable[R]]) -> R:
        """Does this with the store."""
        from bot.ops.operate import open_to_change

        async def run() -> R:
            async with open_to_change(self.settings, self.clock) as database:
                return await work(database)

        return asyncio.run(run())

    def tell(self, done: JsonObject, *lines: str) -> None:
        """Prints the result for programs, or these lines for people."""
        tell(json_module.dumps(done, indent=2)) if self.json else tell(*lines)


def options(
    *, json: bool = False, changes: bool = False
) -> Callable[[Callable[Concatenate[CommandLine, ...], R]], Callable[..., R]]:
    """Gives a command `--config`, and a `CommandLine` as its first argument.

    `changes`: it changes something, so it has `--as`, `--reason` and `--json` as well.
    """

    def add(run: Callable[Concatenate[CommandLine, ...], R]) -> Callable[..., R]:
        @wraps(run)
        def called(
            config: Path,
            json: bool = False,
            by: str | None = None,
            reason: str | None = None,
            **own: Any,
        ) -> R:
            clock = click.get_current_context().find_root().obj
            return run(CommandLine(config, json, by, reason, clock), **own)

        added = [click.option("--config", type=FILE, default=DEFAULT_FILE, show_default=True, help="The settings.")]
        if json or changes:
            added.append(click.option("--json", is_flag=True, help="Print one JSON object, for programs."))
        if changes:
            added.append(click.option("--reason", metavar="TEXT", help="Why: cards, threads and the audit show it."))
            name = "Your name, which cards, threads and the audit show. Default: your account's."
            added.append(click.option("--as", "by", metavar="NAME", default=account, callback=_check_name, help=name))
        wrapped: Callable[..., R] = called
        for option in added:
            wrapped = option(wrapped)
        return wrapped

    return add


names_option = click.option(
    "--names/--no-names", default=True, help="Ask Slack for the names of people and channels.  [default: --names]"
)


def account() -> str | None:
    """The name of the account that runs the command. With sudo, the account of the person."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container without an entry for its user
        return None


def _check_name(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    if name is None:
        return None
    from bot.policy.approvers import operator

    try:
        operator(name)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return name


# Printing


def tell(*lines: str) -> None:
    tell_all([f"{line}\n" for line in lines], standard_output())


def paint(text: str, colour: str) -> str:
    """In colour, if the output is a terminal and nothing forbids it."""
    return click.style(text, fg=colour) if _use_colours() else text


def _use_colours() -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout.isatty()


def standard_output() -> TextIO:
    """Standard output that writes characters that the terminal lacks as escapes, so that printing never fails."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return sys.stdout


def tell_all(parts: Iterable[str], out: TextIO) -> bool:
    """Prints lines. Returns False if the reader closed the pipe (`| head`), which is not an error."""
    try:
        for part in parts:
            out.write(part)
        out.flush()
    except BrokenPipeError:
        # Python flushes standard output once more at its end, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True
