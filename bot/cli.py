"""The command line `adk-confirm`. Each command is imported when it is called, so that `adk-confirm --help` is fast.

A command is a function of its own name in the module that stands beside it here; it may return an exit code. A
`ConfirmError` is printed as one sentence, with exit code 2; after `--json` as `{"error": "…"}`.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from itertools import groupby
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem, get_completion_class

from adk_confirm.runtime.errors import ConfirmError

PROGRAM = "adk-confirm"


class CommandEntry(NamedTuple):
    task: str
    module: str  # of what is here, none
    summary: str


COMMANDS: dict[str, CommandEntry] = {
    "demo": CommandEntry("Try", "demo.command", "try it in a local workspace: no Slack, no API key, no database"),
    "init": CommandEntry("Set up", "bot.ops.setup", "write a commented adk-confirm.toml"),
    "manifest": CommandEntry("Set up", "bot.ops.setup", "print the manifest to create the Slack app from"),
    "ids": CommandEntry("Set up", "bot.ops.ids", "find the ids of people, groups and channels for the settings"),
    "check": CommandEntry("Set up", "bot.ops.check", "check settings, Slack, store and agent before starting"),
    "explain": CommandEntry("Set up", "bot.ops.explain", "show which policy covers a call, and who may decide"),
    "completion": CommandEntry("Set up", "", "print the completion script for bash, zsh or fish"),
    "serve": CommandEntry("Run", "bot.ops.serve", "run the Slack app in front of your agent"),
    "api": CommandEntry("Run", "bot.ops.api", "serve agents over ADK's HTTP API"),
    "backup": CommandEntry(
        "Run", "bot.ops.backup", "copy a SQLite store and what is beside it, while the service runs"
    ),
    "reseal": CommandEntry("Run", "bot.ops.reseal", "seal everything with a new secret, so that the old one can go"),
    "ask": CommandEntry("For scripts", "bot.ops.door", "ask people to approve what a script is about to do"),
    "mcp-proxy": CommandEntry("For scripts", "bot.ops.door", "give an MCP client tools that run once people approve"),
    "permit": CommandEntry("For scripts", "bot.ops.door", "check the permits that callers get"),
    "pending": CommandEntry("Decide", "bot.ops.waiting", "list what waits for approval, and what failed too often"),
    "grants": CommandEntry("Decide", "bot.ops.waiting", "list the grants in force"),
    "answer": CommandEntry("Decide", "bot.ops.api", "for calls of `adk-confirm api`: yes or no"),
    "withdraw": CommandEntry("Decide", "bot.ops.changes", "withdraw a call that waits for approval"),
    "revoke": CommandEntry("Decide", "bot.ops.changes", "end a grant, so that such calls ask again"),
    "reapply": CommandEntry(
        "Decide", "bot.ops.reapply", "put waiting calls under the policies as they are in the file now"
    ),
    "retry": CommandEntry("Decide", "bot.ops.changes", "retry failed work"),
    "pause": CommandEntry("Decide", "bot.ops.changes", "hold approved calls until you resume"),
    "resume": CommandEntry("Decide", "bot.ops.changes", "start approved calls again"),
    "audit": CommandEntry("Audit", "bot.ops.audit", "read, export, verify or purge the audit"),
}
MEANT = {"history": "audit show", "log": "audit list", "approvals": "pending", "start": "serve", "run": "serve"}
"""What other programs call a command of ours."""
IN_SLACK = ("approve", "deny", "edit", "reject")


class CommandGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  (likewise)
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        find_users_modules()
        command = self.commands.get(cmd_name)
        if command is None:
            command = getattr(importlib.import_module(f"adk_confirm.{entry.module}"), cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        command.short_help = entry.summary
        command.help = command.help or f"{entry.summary[0].upper()}{entry.summary[1:]}."
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes from the table here, without importing any command."""
        names = [CompletionItem(name, help=of.summary) for name, of in COMMANDS.items() if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  (likewise)
        """Prints the summaries from the table here, without importing any command."""
        for task, entries in groupby(COMMANDS.items(), key=lambda each: each[1].task):
            with formatter.section(task):
                formatter.write_dl([(f"{name:<{max(map(len, COMMANDS))}}", entry.summary) for name, entry in entries])


@click.group(
    cls=CommandGroup,
    subcommand_metavar="COMMAND [OPTIONS]",
    options_metavar="",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"{PROGRAM} COMMAND --help says more about one of them.",
)
@click.version_option(None, "-V", "--version", package_name=PROGRAM, message="%(prog)s %(version)s")
def commands() -> None:
    """Approve, deny or edit the tool calls of ADK agents from Slack; each runs exactly once."""


@commands.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> int:
    """Print the completion script for bash, zsh or fish.

    \b
    bash  add to ~/.bashrc:  eval "$(adk-confirm completion bash)"
    zsh   add to ~/.zshrc:   eval "$(adk-confirm completion zsh)"
    fish  adk-confirm completion fish > ~/.config/fish/completions/adk-confirm.fish
    """
    program = ctx.find_root()
    kind = get_completion_class(shell)
    assert kind is not None
    name = program.info_name or "adk-confirm"
    click.echo(kind(program.command, {}, name, f"_{name}_COMPLETE".replace("-", "_").upper()).source())
    return 0


def main(argv: Sequence[str] | None = None, clock: Callable[[], float] | None = None) -> int:
    """Runs a command and returns the exit code: 0 for success, 1 if a check found something, 2 if the command failed.

    `clock` replaces the time of day, for tests.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # whoever started this has closed it
            setattr(sys, name, open(os.devnull, "r+"))  # noqa: SIM115  (until the process ends)
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["help"]:
        given = [*given[1:], "--help"]
    warnings.filterwarnings("ignore", r"\[EXPERIMENTAL\]")  # google-adk's, of classes that it gives us no choice about
    named = given[: 2 if given[:1] == ["audit"] else 1]
    program = " ".join((PROGRAM, *named)) if named and named[0] in COMMANDS else PROGRAM
    if any("\udc80" <= char <= "\udcff" for argument in given for char in argument):  # as Python reads other bytes
        return _report_refusal(program, "The arguments must be UTF-8.", given)
    try:
        code = commands.main(given, prog_name=PROGRAM, standalone_mode=False, obj=clock)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        return _report_refusal(context.command_path if context is not None else program, _sentence(error), given)
    except click.Abort:
        return 130
    except ConfirmError as error:
        return _report_refusal(program, str(error), given)
    return code if isinstance(code, int) else 0


def _sentence(error: click.ClickException) -> str:
    """Click's own, with what to do next. Of an unknown option click would list all that are a little like it."""
    said = error.format_message()
    match error:
        case click.NoSuchOption():
            meant = _nearest(error.option_name, error.possibilities or ())
            said = f"No such option {error.option_name!r}."
            return f"{said} Did you mean {meant!r}?" if meant else f"{said} Add --help to see its options."
        case click.NoSuchCommand(ctx=click.Context(command=click.Group() as group) as ctx):
            return f"No such command {error.command_name!r}. {_instead(error.command_name, group, ctx)}"
        case click.MissingParameter():
            return f"{said.partition(' Choose from:')[0]} Add --help to see what it takes."
        case click.UsageError(ctx=click.Context() as ctx):
            extra = re.fullmatch(r"Got unexpected extra argument \((.+)\)", said)
            option = "--config" if extra and extra[1].endswith(".toml") else "--tool"
            if extra and any(option in each.opts for each in ctx.command.params):
                return f"{said}. Did you mean `{ctx.command_path} {option} {shlex.quote(extra[1])}`?"
    return said


def _instead(name: str, group: click.Group, ctx: click.Context) -> str:
    """What to type instead of a command that there is not: one of this group, or of another place or name."""
    if name in IN_SLACK:
        return f"People do that in Slack. `{PROGRAM} pending` lists what waits."
    audit = commands.get_command(ctx, "audit")
    assert isinstance(audit, click.Group)
    known = MEANT | {each: f"audit {each}" for each in audit.commands} | {each: each for each in COMMANDS}
    known |= {each: f"{ctx.command_path} {each}".removeprefix(f"{PROGRAM} ") for each in group.list_commands(ctx)}
    near = _nearest(name, known)
    return f"Did you mean `{PROGRAM} {known[near]}`?" if near else f"`{ctx.command_path} --help` lists them."


def _nearest(name: str, known: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(name, list(known), n=1)), None)


def _report_refusal(program: str, sentence: str, given: Iterable[str]) -> int:
    if "--json" in given:
        print(json.dumps({"error": sentence}))
    else:
        print(f"{program}: {sentence}", file=sys.stderr)
    return 2


def find_users_modules() -> None:
    """Makes the modules in this folder importable, but never instead of those that are installed."""
    here = os.getcwd()
    sys.path[:] = [*(path for path in sys.path if path not in ("", here)), here]


if __name__ == "__main__":
    sys.exit(main())
