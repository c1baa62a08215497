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
    parser.add_argument("--install", metavar="URL", help="for several workspaces: where they install it, likewise")
    parser.add_argument("--org", action="store_true", help="organisations may install it for all their workspaces")


def run(args: argparse.Namespace) -> int:
    print(manifest(args.http, install=args.install, org=args.org), end="")
    return 0


def manifest(url: str | None = None, *, install: str | None = None, org: bool = False) -> str:
    """As it stands in `manifest.yml`; with a URL, for an app that Slack reaches there. `install`: where workspaces
    that install it by themselves are sent back to; `org`: organisations may do so as well."""
    text = _text() if url is None else _over_http(_text(), _address(url))
    if install is not None:
        back = f"{_address(install)}/slack/oauth_redirect"
        listed = f"oauth_config:\n  redirect_urls:\n    - {back} # where Slack sends people who installed the app\n"
        text = text.replace("oauth_config:\n", listed)
    return _for_organisations(text) if org else text


def _for_organisations(text: str) -> str:
    """With the events that only they have."""
    where = "team_access_granted # in which of its workspaces an organisation may use it"
    text = text.replace(
        "      - tokens_revoked\n", f"      - {where}\n      - team_access_revoked\n      - tokens_revoked\n"
    )
    return text.replace("  org_deploy_enabled: false\n", "  org_deploy_enabled: true\n")


def _address(url: str) -> str:
    if not re.fullmatch(r"https://[^\s/]+(/\S*)?", url):
        raise Invalid(f"{url!r} is no address that Slack can reach: write https://your.host.")
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
    """Beside the package in a checkout, inside it when installed."""
    if _CHECKOUT.is_file():
        return _CHECKOUT.read_text(encoding="utf-8")
    return resources.files("bot").joinpath("manifest.yml").read_text(encoding="utf-8")
