"""What the commands share: the options that several of them have, the store, and how they print.

@click.command()
@options(json=True, names=True)
async def pending(call: CommandLine) -> None: ...
"""

from __future__ import annotations

import asyncio
import getpass
import io
import json as json_module
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, wraps
from pathlib import Path
from textwrap import wrap
from time import monotonic
from typing import TYPE_CHECKING, Any, Concatenate, TextIO

import click
from click.shell_completion import CompletionItem

from adk_confirm.bot.config.settings import DEFAULT_FILE, Settings, load_settings
from adk_confirm.bot.confirmation.stored_json import DEEPEST, check_json
from adk_confirm.bot.policy.approvers import OPERATOR, Person, operator
from adk_confirm.bot.policy.durations import parse_duration
from adk_confirm.bot.store.known_names import KnownNames, read_names
from adk_confirm.bot.store.open import SCHEMAS, may_change, sqlite_file
from adk_confirm.runtime.errors import ConfirmError, Invalid, NotFound, StoreError
from adk_confirm.runtime.jsontypes import Json, JsonObject, read_json
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.seal import Seal
from adk_confirm.runtime.store.tables import StoreSchema, lay_out

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

DATES = "2030-01-31, 2030-01-31T18:00, 2030-01-31T18:00+01:00, or 90d for 90 days ago"
PORT = click.IntRange(0, 65535)
FILE = click.Path(path_type=Path)

UNSHOWN = 1.0
"""Seconds that work may take before `progress` shows a bar."""
COLUMNS = 100

Clock = Callable[[], float]


@dataclass
class CommandLine:
    """One call of a command: its common options, and what they open."""

    config: Path = Path(DEFAULT_FILE)
    json: bool = False
    person: Person = OPERATOR  # who runs the command
    reason: str | None = None
    names: bool = False
    clock: Clock | None = None

    @cached_property
    def settings(self) -> Settings:
        return load_settings(self.config, os.environ)

    @property
    def seal(self) -> Seal:
        """The seal, with the secret that the ledger is signed with."""
        seal = self.settings.environment.seal
        if seal is None:
            raise Invalid(
                "There is no secret to check the ledger with. Set ADK_CONFIRM_SECRET as the service has it (or the "
                "SLACK_SIGNING_SECRET or SLACK_BOT_TOKEN that it uses instead)."
            )
        return seal

    def now(self) -> datetime:
        return datetime.now(UTC) if self.clock is None else datetime.fromtimestamp(self.clock(), UTC)

    def reading(self, *, sealed: bool = False) -> AbstractAsyncContextManager[Database]:
        """The store, read-only. `sealed`: with the secret, so that what somebody changed there is noticed."""
        return open_for_reading(self.settings.store_url, self.clock, self.seal if sealed else None)

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[Database]:
        """The store, to write to it. On SQLite a command does so beside the service, if one runs, and the service
        notices within a second. On PostgreSQL it works like one more replica."""
        async with self.reading(sealed=True) as there:  # which checks that the store exists and fits
            await there.read(may_change, self.settings)
        database = await Database.open(self.settings.store_url, clock=self.clock, context=self.seal, beside=True)
        try:
            yield database
        finally:
            await database.close()

    async def known_names(self, database: Database) -> KnownNames:
        return await database.read(read_names) if self.names else KnownNames()

    def tell(self, done: JsonObject, *lines: str) -> None:
        """Prints the result for programs, or these lines for people."""
        tell(json_module.dumps(done, indent=2)) if self.json else tell(*lines)


@asynccontextmanager
async def open_for_reading(
    url: str, clock: Clock | None = None, seal: Seal | None = None, schemas: Sequence[StoreSchema] = SCHEMAS
) -> AsyncIterator[Database]:
    """The store, opened read-only while another process may write to it. Raises an error with a sentence if it does not
    exist or does not fit."""
    path = sqlite_file(url)
    if path is not None and not os.path.exists(path):  # noqa: ASYNC240  (one stat)
        by, how = ("serve", "its settings with --config") if schemas is SCHEMAS else ("api", "it with --store")
        made = f"`adk-confirm {by}` makes it when it first starts. If yours is elsewhere, name {how}."
        raise NotFound(f"There is no store at {path} yet. {made}")
    if path is not None and not os.access(path, os.R_OK):
        raise StoreError(f"{path} belongs to another user. Run this command as the user that runs the service.")
    database = await Database.open(url, clock=clock, read_only=True, context=seal)
    try:
        await lay_out(database, *schemas)
        yield database
    finally:
        await database.close()


def json_object(_: click.Context, option: click.Parameter, text: str | None) -> JsonObject | None:
    """Reads an option that is a JSON object."""
    name, value = option.opts[0], None
    try:
        value = None if text is None else read_json(text, DEEPEST)
        if not isinstance(value, dict | None):
            raise ValueError(f"it is {'a list' if isinstance(value, list) else 'one value'}")
    except ValueError as error:
        said = f'{name} is not a JSON object: {error}. Write for example {name} \'{{"env": "prod"}}\'.'
        raise Invalid(said) from error
    check_json(value, name)
    return value


def seconds(_: click.Context, option: click.Parameter, text: str) -> float:
    """Reads an option that is a duration."""
    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        raise Invalid(f"{option.opts[0]} {error}.") from error


# Points in time


def parse_time(text: str, option: str, now: datetime, *, end: bool = False) -> datetime:
    """Reads a time or a day. A day means its first moment. With `end`, as for "until", it means the first moment of the
    next day.

    >>> noon = datetime(2030, 1, 31, 12, tzinfo=UTC)
    >>> str(parse_time("2030-01-30T00:00Z", "--since", noon)), str(parse_time("36h", "--since", noon))
    ('2030-01-30 00:00:00+00:00', '2030-01-30 00:00:00+00:00')
    """
    with suppress(ValueError):
        day = date.fromisoformat(text)
        if end and day == date.max:
            return datetime.max.replace(tzinfo=UTC)
        return _to_utc(datetime.combine(day + timedelta(days=end), time()))
    with suppress(ValueError):
        return _to_utc(datetime.fromisoformat(text))
    try:
        return now - parse_duration(text)
    except ValueError:
        raise Invalid(f"{option} {text!r} is not a point in time. Write {DATES}.") from None


def format_time(at: datetime) -> str:
    """In the reader's time zone, which is that of the machine (or `TZ`).

    >>> format_time(datetime(2030, 1, 31, 12, 0, 7, tzinfo=UTC))[:8]
    '2030-01-'
    """
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def read_stamp(value: Json) -> datetime:
    """A time as --json prints it."""
    return datetime.fromisoformat(str(value))


def _to_utc(at: datetime) -> datetime:
    """A time without a zone is in the machine's zone."""
    try:
        return (at.astimezone() if at.tzinfo is None else at).astimezone(UTC)
    except (OverflowError, ValueError, OSError):  # beyond the first or the last year
        return at.replace(tzinfo=UTC)


# A command

Code = int | None
"""What a command returns: its exit code, or nothing for 0."""

Work = Callable[Concatenate[CommandLine, ...], Code | Coroutine[Any, Any, Code]]


def options(
    *, json: bool = False, changes: bool = False, names: bool = False, config: bool = True
) -> Callable[[Work], Callable[..., Code]]:
    """Gives a command a `CommandLine` as its first argument, and the options for that. If it is async, it runs in a
    loop of its own.

    `changes`: it changes something, so it has `--as`, `--reason` and `--json` as well. `names`: it shows
    names beside the ids, unless `--no-names` is given. `config`: it reads the settings.
    """

    added: dict[str, Callable[[Callable[..., Code]], Callable[..., Code]]] = {}
    if config:
        added["config"] = click.option("--config", type=FILE, default=DEFAULT_FILE, show_default=True, help=_SETTINGS)
    if json or changes:
        added["json"] = click.option("--json", is_flag=True, help="Print one JSON object, for programs.")
    if names:
        added["names"] = click.option("--names/--no-names", default=True, help=_NAMES)
    if changes:
        added["reason"] = click.option("--reason", metavar="TEXT", help="Why: cards, threads and the audit show it.")
        name = "Your name, which cards, threads and the audit show. Default: your account's."
        added["person"] = click.option("--as", "person", metavar="NAME", default=account, callback=_person, help=name)

    def add(run: Work) -> Callable[..., Code]:
        @wraps(run)
        def called(**given: Any) -> Code:
            common = {option: given.pop(option) for option in added}
            done = run(CommandLine(**common, clock=click.get_current_context().find_root().obj), **given)
            return asyncio.run(done) if isinstance(done, Coroutine) else done

        wrapped: Callable[..., Code] = called
        for option in added.values():
            wrapped = option(wrapped)
        return wrapped

    return add


_SETTINGS = "The settings."
_NAMES = "Show the names of people and channels, as far as the service has seen them.  [default: --names]"


# Completing in a shell

Named = Iterable[tuple[str, str]]
"""Names, each with what it is."""

Completes = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def completed(find: Callable[[CommandLine], Coroutine[Any, Any, Named]]) -> Completes:
    """Completes a value with what is found with the command's settings. If nothing can be found, with nothing."""

    def complete(ctx: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
        call = CommandLine(ctx.params["config"]) if ctx.params.get("config") else CommandLine()
        with suppress(ConfirmError):
            found = asyncio.run(find(call))
            return [CompletionItem(name, help=about) for name, about in found if name.startswith(typed)]
        return []

    return complete


def completed_from_store(read: Callable[[Tx], Named]) -> Completes:
    async def find(call: CommandLine) -> Named:
        async with call.reading() as database:
            return await database.read(lambda tx: [*read(tx)])

    return completed(find)


TOOLS = completed_from_store(
    lambda tx: ((tool, "") for tool in tx.column("SELECT DISTINCT tool FROM bot_confirmations ORDER BY tool"))
)


def account() -> str | None:
    """The name of the account that runs the command. With sudo, the account of the person."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container without an entry for its user
        return None


def _person(_: click.Context, __: click.Parameter, name: str | None) -> Person:
    try:
        return OPERATOR if name is None else operator(name)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


# Printing


def tell(*lines: str) -> None:
    tell_all([f"{line}\n" for line in lines], standard_output())


def in_columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """A table. The last column is not padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join((*map(str.ljust, row[:-1], widths), row[-1])).rstrip()


def wrapped(text: str, indent: str = "") -> list[str]:
    """A sentence, on as many lines of a terminal as it needs."""
    return wrap(text, COLUMNS, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


@contextmanager
def progress(label: str, length: int) -> Iterator[Callable[[int], None]]:
    """Takes how much more of `length` is done. It is shown on a terminal once it takes longer than a second, and never
    in a pipe."""
    began, done = monotonic(), 0
    shown: ProgressBar[int] | None = None
    with ExitStack() as stack:

        def more(count: int) -> None:
            nonlocal done, shown
            done += count
            if shown is not None:
                shown.update(count)
            elif monotonic() - began > UNSHOWN and sys.stdout.isatty() and sys.stderr.isatty():
                shown = stack.enter_context(click.progressbar(length=length, label=label, file=sys.stderr))
                shown.update(done)

        yield more


def paint(text: str, colour: str | None = None) -> str:
    """In colour, or without one in bold, if the output is a terminal and nothing forbids it."""
    forbidden = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if forbidden or not sys.stdout.isatty() else click.style(text, fg=colour, bold=None if colour else True)


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
        _discard_output()
        return False
    except OSError as error:
        if out is not sys.stdout:
            raise
        _discard_output()
        raise StoreError(f"The output can't be written: {error.strerror}.") from error
    return True


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
