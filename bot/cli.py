"""The command `adk-confirm`. Each subcommand is a module of `bot.commands`, loaded when it is called.

A command's module has `configure(parser)`, which adds its arguments, and `run(args)`, which returns the exit code.
What it raises as a `ConfirmError` is told in one sentence, with exit code 2.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple, Protocol, cast

PROGRAM = "adk-confirm"
OURS = Path(__file__).resolve().parent.parent
PACKAGES = ("bot", "runtime", "blocks")


class Entry(NamedTuple):
    module: str
    summary: str


COMMANDS: dict[str, Entry] = {
    "demo": Entry("bot.commands.demo", "try it all in a local workspace: no Slack, no API key, no database"),
    "serve": Entry("bot.commands.serve", "run the Slack app in front of your agent"),
    "check": Entry("bot.commands.check", "whether all that serve needs is there, and how to mend what is not"),
    "manifest": Entry("bot.commands.manifest", "the Slack app's manifest, to paste"),
    "api": Entry("bot.commands.api", "serve agents over ADK's HTTP API"),
    "pending": Entry("bot.commands.pending", "what waits, since when, for whom, until when"),
    "audit": Entry("bot.commands.audit", "the ledger: export, show, verify, purge"),
    "explain": Entry("bot.commands.explain", "which policy a call would fall under, and who may decide"),
    "reapply": Entry("bot.commands.reapply", "bring what waits under the policies as the file has them now"),
    "withdraw": Entry("bot.commands.withdraw", "take back a confirmation that waits"),
    "revoke": Entry("bot.commands.revoke", "end a grant: calls like it ask again"),
    "retry": Entry("bot.commands.retry", "try again what stopped being tried"),
    "pause": Entry("bot.commands.pause", "let no call begin until you resume"),
    "resume": Entry("bot.commands.resume", "let what was paused go on"),
}


class Command(Protocol):
    def configure(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, args: argparse.Namespace) -> int: ...


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0 when all went well, 2 when the command could not do it and said why."""
    given = list(sys.argv[1:] if argv is None else argv)
    if not given or given[0] in ("-h", "--help", "help"):
        print(_help())
        return 0 if given else 2
    if given[0] in ("-V", "--version"):
        print(f"{PROGRAM} {_version()}")
        return 0
    name, *rest = given
    if name not in COMMANDS:
        return _refused(PROGRAM, f"there is no command {name!r}; there are: {', '.join(COMMANDS)}.")
    _put_ours_first()
    for package in PACKAGES:
        if (foreign := _foreign(package)) is not None:
            return _refused(
                PROGRAM,
                f"{foreign} was found as the package {package!r}, which is also the name of one of {PROGRAM}'s own: "
                "rename yours, or take its directory out of PYTHONPATH.",
            )
    return _perform(name, rest)


def _perform(name: str, rest: Sequence[str]) -> int:
    from runtime.errors import ConfirmError

    entry = COMMANDS[name]
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} {name}", description=f"{entry.summary[0].upper()}{entry.summary[1:]}."
    )
    try:
        command = cast("Command", importlib.import_module(entry.module))
        command.configure(parser)
        return command.run(parser.parse_args(rest))
    except ConfirmError as error:
        return _refused(parser.prog, str(error))
    except KeyboardInterrupt:
        return 130
    except SystemExit as stop:  # argparse has said what is wrong with the arguments, or was asked for help
        return stop.code if isinstance(stop.code, int) else 2


def _put_ours_first() -> None:
    """A user's modules are importable, but never instead of ours."""
    ours = str(OURS)
    here = os.getcwd()
    sys.path[:] = [ours, *(path for path in sys.path if path not in (ours, "", here)), here]


def _foreign(package: str) -> str | None:
    """Where the package comes from, if it is not ours."""
    loaded = sys.modules.get(package)
    spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(package)
    places = [] if spec is None else [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.origin else [])]
    if places and all(OURS in Path(place).resolve().parents for place in places):
        return None
    return places[0] if places else "something else"


def _refused(program: str, sentence: str) -> int:
    print(f"{program}: {sentence}", file=sys.stderr)
    return 2


def _help() -> str:
    width = max(len(name) for name in COMMANDS)
    listed = "\n".join(f"  {name:<{width}}  {entry.summary}" for name, entry in COMMANDS.items())
    return (
        f"usage: {PROGRAM} COMMAND [options]\n\n"
        "Approve, deny or edit the tool calls of ADK agents from Slack; each runs exactly once.\n\n"
        f"commands:\n{listed}\n\n"
        f"{PROGRAM} COMMAND --help says more about one of them."
    )


def _version() -> str:
    try:
        return metadata.version(PROGRAM)
    except metadata.PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
