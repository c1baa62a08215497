"""`adk-confirm manifest`: the Slack app's manifest, for Socket Mode or for HTTP, reasons included."""

from __future__ import annotations

import argparse
import re
from importlib import resources
from pathlib import Path

from runtime.errors import Invalid

_CHECKOUT = Path(__file__).resolve().parents[2] / "manifest.yml"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--http", metavar="URL", help="where the bot is reached, e.g. https://confirm.example.com")


def run(args: argparse.Namespace) -> int:
    print(manifest(args.http), end="")
    return 0


def manifest(url: str | None = None) -> str:
    """As it stands in `manifest.yml`; with a URL, for an app that Slack reaches there."""
    text = _text()
    if url is None:
        return text
    if not re.fullmatch(r"https://[^\s/]+(/\S*)?", url):
        raise Invalid(f"{url!r} is no address that Slack can reach: write https://your.host.")
    events = f"{url.rstrip('/')}/slack/events"
    comment = re.compile(r"^# It is for Socket Mode.*\n", re.MULTILINE)
    text = comment.sub(f"# It is for HTTP: Slack reaches the bot at {events}.\n", text)
    text = text.replace("  event_subscriptions:\n", f"  event_subscriptions:\n    request_url: {events}\n")
    text = text.replace(
        "    is_enabled: true # Socket Mode needs it too\n", f"    is_enabled: true\n    request_url: {events}\n"
    )
    text = text.replace("    - command: /approvals\n", f"    - command: /approvals\n      url: {events}\n")
    return text.replace("  socket_mode_enabled: true\n", "  socket_mode_enabled: false\n")


def _text() -> str:
    """Beside the package in a checkout, inside it when installed."""
    if _CHECKOUT.is_file():
        return _CHECKOUT.read_text(encoding="utf-8")
    return resources.files("bot").joinpath("manifest.yml").read_text(encoding="utf-8")
