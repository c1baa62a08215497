"""The commands to begin with: init and manifest."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import click

from adk_confirm.bot.config.settings import DEFAULT_FILE, parse_settings
from adk_confirm.bot.ops.command import FILE, tell
from adk_confirm.bot.ops.findings import tools_of
from adk_confirm.bot.policy.approvers import parse_approver
from adk_confirm.runtime.errors import Conflict, Invalid, StoreError
from adk_confirm.runtime.jsontypes import as_object

_CHECKOUT = Path(__file__).resolve().parents[2]
_APPROVERS = ("group:S0ONCALL",)


def _approver(text: str) -> str:
    try:
        return str(parse_approver(text))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@click.option("--config", type=FILE, default=DEFAULT_FILE, show_default=True, help="The file to write.")
@click.option("--agent", metavar="MODULE:NAME", help="Your agent. The file then has a policy for each tool that asks.")
@click.option(
    "--approver",
    "approvers",
    metavar="KIND:ID",
    multiple=True,
    type=_approver,
    help="Who may decide, such as user:U0123456789.",
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def init(config: Path, agent: str | None, approvers: tuple[str, ...], force: bool) -> int:
    """Write a settings file with every key, explained, and policies: examples, or those that your agent needs.

    `adk-confirm check` says what is still missing in it.
    """
    if approvers and agent is None:
        raise click.UsageError("--approver is for the policies of your agent: name it with --agent.")
    text = example_settings() if agent is None else settings_for(agent, approvers or _APPROVERS)
    try:
        with config.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        said = f"{config} exists already. Name another file with --config, or use --force to replace it."
        raise Conflict(said) from error
    except OSError as error:
        raise StoreError(f"{config} can't be written: {error.strerror}. Name another file with --config.") from error
    missing = "Put the ids of your people and channels into it; `adk-confirm check` says what is missing."
    tell(f"{config} is written. {missing}")
    return 0


def example_settings() -> str:
    return (_CHECKOUT / "examples" / "adk-confirm.toml").read_text(encoding="utf-8")


def settings_for(target: str, approvers: Sequence[str] = _APPROVERS) -> str:
    """Settings for this agent, with a policy for each of its tools that may ask people. Raises `ConfirmError` if there
    is no such agent."""
    head, _, _ = example_settings().partition("# Policies, in order.")
    head = re.sub(r"^target = .*$", lambda _: f"target = {json.dumps(target)}", head, flags=re.MULTILINE)
    tools = asyncio.run(tools_of(parse_settings(head, {}).agent))
    asking = {
        name: f"{name}({', '.join(as_object((tool.schema or {}).get('properties')))})"
        for name, tool in (tools or {}).items()
        if tool.may_ask
    }
    if tools is None:
        asking = {"*": "Every call that asks: the agent is a workflow, so its tools can't be listed here."}
    asking = asking or {"*": "Every call that asks. No tool of the agent does so now."}
    who = ", ".join(map(json.dumps, approvers))
    policies = (
        f'# {about}\n[[policy]]\ntools = [{json.dumps(tool)}]\napprovers = [{who}]\nquorum = 1\nexpires_after = "24h"\n'
        for tool, about in asking.items()
    )
    return "\n".join((f"{head}{_ABOUT_POLICIES}", *policies))


_ABOUT_POLICIES = """\
# Policies, in order. The first that matches a call applies to it. If none matches, nobody may decide.
# docs/policies.md has more keys, such as when, title, edit, redact and escalate_to; `adk-confirm init` without --agent
# writes them all, explained.
"""


@click.command()
@click.option("--http", metavar="URL", help="The bot's public address, such as https://confirm.example.com.")
def manifest(http: str | None) -> int:
    """Print the manifest to create the Slack app from: api.slack.com/apps → Create New App → From a manifest."""
    tell(manifest_text(http).rstrip("\n"))
    return 0


def manifest_text(url: str | None = None) -> str:
    """`manifest.yml`. With a URL, changed for an app that Slack reaches there."""
    kept = _CHECKOUT / "manifest.yml"  # in a checkout; installed, it is in the package
    found = kept if kept.is_file() else resources.files("adk_confirm.bot").joinpath("manifest.yml")
    text = found.read_text(encoding="utf-8")
    if url is None:
        return text
    if not re.fullmatch(r"https://[^\s/]+(/\S*)?", url):
        raise Invalid(f"{url!r} is not an address that Slack can reach. Write https://your.host.")
    events = f"{url.rstrip('/')}/slack/events"
    comment = re.compile(r"^# It is for Socket Mode.*\n", re.MULTILINE)
    text = comment.sub(f"# It is for HTTP: Slack reaches the bot at {events}.\n", text)
    text = text.replace("  event_subscriptions:\n", f"  event_subscriptions:\n    request_url: {events}\n")
    text = text.replace(
        "    is_enabled: true # Socket Mode needs it too\n", f"    is_enabled: true\n    request_url: {events}\n"
    )
    text = text.replace("    - command: /approvals\n", f"    - command: /approvals\n      url: {events}\n")
    return text.replace("  socket_mode_enabled: true\n", "  socket_mode_enabled: false\n")
