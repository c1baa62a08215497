"""`adk-confirm manifest`: the Slack app's manifest, for Socket Mode or for HTTP, with a reason for each scope."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import click

from runtime.errors import Invalid

_CHECKOUT = Path(__file__).resolve().parents[2] / "manifest.yml"


@click.command()
@click.option("--http", metavar="URL", help="The bot's public address, such as https://confirm.example.com.")
def manifest(http: str | None) -> int:
    """Print the manifest to create the Slack app from: api.slack.com/apps → Create New App → From a manifest."""
    print(manifest_text(http), end="")
    return 0


def manifest_text(url: str | None = None) -> str:
    """`manifest.yml`. With a URL, changed for an app that Slack reaches there."""
    return _text() if url is None else _over_http(_text(), _address(url))


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
