"""`adk-confirm manifest`: the Slack app's manifest, for Socket Mode or for HTTP, with a reason for each scope."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import click

from bot.slack.scopes import AGENT_EVENTS, AGENT_SCOPES
from runtime.errors import Invalid

_CHECKOUT = Path(__file__).resolve().parents[2] / "manifest.yml"


@click.command()
@click.option("--http", metavar="URL", help="The bot's public address, such as https://confirm.example.com.")
@click.option("--classic", is_flag=True, help="Without Slack's agent features, for an app that is not an agent.")
def manifest(http: str | None, classic: bool) -> int:
    """Print the manifest to create the Slack app from: api.slack.com/apps → Create New App → From a manifest."""
    print(manifest_text(http, classic=classic), end="")
    return 0


def manifest_text(url: str | None = None, *, classic: bool = False) -> str:
    """`manifest.yml`. With a URL, changed for an app that Slack reaches there. `classic`: the app is not an agent."""
    text = _without_agent(_text()) if classic else _text()
    return text if url is None else _over_http(text, _address(url))


def _without_agent(text: str) -> str:
    """Removes the parts that declare the app as an agent."""
    text = re.sub(r"^  agent_view:.*\n(?:    .*\n)+", "", text, flags=re.MULTILINE)
    text = re.sub(r"^# `adk-confirm manifest --classic`.*\n", "", text, flags=re.MULTILINE)
    for name in (*AGENT_SCOPES, *AGENT_EVENTS):
        text = re.sub(rf"^      - {name}\b.*\n", "", text, flags=re.MULTILINE)
    return text


def _address(url: str) -> str:
    if not re.fullmatch(r"https://[^\s/]+(/\S*)?", url):
        raise Invalid(f"{url!r} is not an address that Slack can reach. Write https://your.host.")
    return url.rstrip("/")


def _over_http(text: str, address: str) -> str:
    events = f"{address}/slack/events"
    comment = re.compile(r"^# It is for Socket Mode.*\n", re.MULTILINE)
    text = comment.sub(f"# It is for HTTP: Slack reaches the bot at {events}.\n", text)
    text = text.replace("  event_subscriptions:\n", f"  event_subscriptions:\n    request_url: {events}\n")
    text = text.replace(
        "    is_enabled: true # Socket Mode needs it too\n", f"    is_enabled: true\n    request_url: {events}\n"
    )
    text = text.replace("    - command: /approvals\n", f"    - command: /approvals\n      url: {events}\n")
    return text.replace("  socket_mode_enabled: true\n", "  socket_mode_enabled: false\n")


def _text() -> str:
    """The file is beside the package in a checkout, and inside the package when installed."""
    if _CHECKOUT.is_file():
        return _CHECKOUT.read_text(encoding="utf-8")
    return resources.files("bot").joinpath("manifest.yml").read_text(encoding="utf-8")
