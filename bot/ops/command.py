"""What the commands share: the options that several of them have, and how they print.

    @click.command()
    @options(json=True, names=True)
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
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, TextIO, TypeAlias, TypeVar

import click

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from click._termui_impl import ProgressBar

    from adk_confirm.bot.config.settings import Settings
    from adk_confirm.bot.policy.approvers import Person
    from adk_confirm.bot.store.known_names import KnownNames
    from adk_confirm.runtime.jsontypes import JsonObject
    from adk_confirm.runtime.store.database import Database

DEFAULT_FILE = "adk-confirm.toml"
DATES = "2030-01-31, 2030-01-31T18:00, 2030-01-31T18:00+01:00, or 90d for 90 days ago"
PORT = click.IntRange(0, 65535)
FILE = click.Path(path_type=Path)

UNSHOWN = 1.0
"""Seconds."""

R = TypeVar("R")
Told: TypeAlias = "tuple[JsonObject, list[str]]"
"""What a command found: for programs, and in lines for people."""


@dataclass
class CommandLine:
    """One call of a command: its common options, and what they open."""

    config: Path
    json: bool = False
    by: str | None = None
    reason: str | None = None
    names: bool = False
    clock: Callable[[], float] | None = None

    @cached_property
    def settings(self) -> Settings:
        from adk_confirm.bot.config.settings import load_settings

        return load_settings(self.config, os.environ)

    def now(self) -> datetime:
        return datetime.now(UTC) if self.clock is None else datetime.fromtimestamp(self.clock(), UTC)

    def reading(self) -> AbstractAsyncContextManager[Database]:
        """The store, read-only."""
        from adk_confirm.bot.ops.operate import open_for_reading

        return open_for_reading(self.settings.store_url, self.clock)

    async def known_names(self, database: Database) -> KnownNames:
        from adk_confirm.bot.store.known_names import KnownNames, read_names

        return await database.read(read_names) if self.names else KnownNames()

    def show(self, look: Callable[[Database, KnownNames], Awaitable[Told]]) -> int:
        """Prints what this finds in the store."""

        async def run() -> Told:
            async with self.reading() as database:
                return await look(database, await self.known_names(database))

        done, lines = asyncio.run(run())
        self.tell(done, *lines)
        return 0

    @property
    def person(self) -> Person:
        """Who runs the command."""
        from adk_confirm.bot.policy.approvers import OPERATOR, operator

        return OPERATOR if self.by is None else operator(self.by)

    def change(self, work: Callable[[Database], Awaitable[R]]) -> R:
        """Does this with the store."""
        from adk_confirm.bot.ops.operate import open_to_change

        async def run() -> R:
            async with open_to_change(self.settings, self.clock) as database:
                return await work(database)

        return asyncio.run(run())

    def tell(self, done: JsonObject, *lines: str) -> None:
        """Prints the result for programs, or these lines for people."""
        tell(json_module.dumps(done, indent=2)) if self.json else tell(*lines)


def options(
    *, json: bool = False, changes: bool = False, names: bool = False
) -> Callable[[Callable[Concatenate[CommandLine, ...], R]], Callable[..., R]]:
    """Gives a command `--config`, and a `CommandLine` as its first argument.

    `changes`: it changes something, so it has `--as`, `--reason` and `--json` as well. `names`: it shows
    names beside the ids, unless `--no-names` is given.
    """

    def add(run: Callable[Concatenate[CommandLine, ...], R]) -> Callable[..., R]:
        @wraps(run)
        def called(
            config: Path,
            json: bool = False,
            by: str | None = None,
            reason: str | None = None,
            names: bool = False,
            **own: Any,
        ) -> R:
            clock = click.get_current_context().find_root().obj
            return run(CommandLine(config, json, by, reason, names, clock), **own)

        added = [click.option("--config", type=FILE, default=DEFAULT_FILE, show_default=True, help="The settings.")]
        if json or changes:
            added.append(click.option("--json", is_flag=True, help="Print one JSON object, for programs."))
        if names:
            added.append(click.option("--names/--no-names", default=True, help=_NAMES))
        if changes:
            added.append(click.option("--reason", metavar="TEXT", help="Why: cards, threads and the audit show it."))
            name = "Your name, which cards, threads and the audit show. Default: your account's."
            added.append(click.option("--as", "by", metavar="NAME", default=account, callback=_check_name, help=name))
        wrapped: Callable[..., R] = called
        for option in added:
            wrapped = option(wrapped)
        return wrapped

    return add


_NAMES = "Show the names of people and channels, as far as the service has seen them.  [default: --names]"


def account() -> str | None:
    """The name of the account that runs the command. With sudo, the account of the person."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container without an entry for its user
        return None


def _check_name(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    if name is None:
        return None
    from adk_confirm.bot.policy.approvers import operator

    try:
        operator(name)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return name


# Printing


def tell(*lines: str) -> None:
    tell_all([f"{line}\n" for line in lines], standard_output())


def in_columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """A table. The last column is not padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join((*map(str.ljust, row[:-1], widths), row[-1]))


@contextmanager
def progress(label: str, length: int) -> Iterator[Callable[[int], None]]:
    """Takes how much more of `length` is done. It is shown on a terminal once it takes longer than a second, and never
    in a pipe."""
    began, done = time.monotonic(), 0
    shown: ProgressBar[int] | None = None
    with ExitStack() as stack:

        def more(count: int) -> None:
            nonlocal done, shown
            done += count
            if shown is not None:
                shown.update(count)
            elif time.monotonic() - began > UNSHOWN and sys.stdout.isatty() and sys.stderr.isatty():
                shown = stack.enter_context(click.progressbar(length=length, label=label, file=sys.stderr))
                shown.update(done)

        yield more


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
