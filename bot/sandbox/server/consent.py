"""Slack's page on which people allow an app: what it checks, and where it sends the browser."""

from __future__ import annotations

from urllib.parse import parse_qs, urlencode, urlsplit

from bot.sandbox.workspace.records import User
from bot.sandbox.workspace.workspace import Workspace
from runtime.errors import Forbidden, Invalid


def allow(workspace: Workspace, user: User, url: str, *, enterprise_wide: bool) -> str:
    """The person allows it: the browser goes back to the app with a code. A wrong request is refused here."""
    asked = _checked_query(workspace, url)
    if user.is_restricted or user.is_ultra_restricted:
        raise Forbidden(f"{user.name} is a guest and can't install apps.")
    code = workspace.expect_install(
        user.team_id, enterprise_wide=enterprise_wide, user=user.id, redirect_uri=asked.get("redirect_uri", "")
    )
    return _return_address(workspace, asked, code=code)


def cancel(workspace: Workspace, url: str) -> str:
    return _return_address(workspace, _checked_query(workspace, url), error="access_denied")


def _checked_query(workspace: Workspace, url: str) -> dict[str, str]:
    parts = urlsplit(url)
    if parts.path != "/oauth/v2/authorize":
        raise Invalid(f"{url} is not where Slack asks.")
    asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
    app = workspace.app
    if asked.get("client_id") != app.client_id:
        raise Invalid("Invalid client_id parameter.")
    scopes = set(filter(None, asked.get("scope", "").split(",")))
    if not scopes or not scopes <= app.scopes:
        raise Invalid(f"Invalid permissions requested: {', '.join(sorted(scopes - app.scopes)) or 'none'}.")
    if not app.redirect_urls:
        raise Invalid("This app has no redirect URL.")
    given = asked.get("redirect_uri", "")
    if given and not any(given.startswith(known) for known in app.redirect_urls):
        raise Invalid("redirect_uri did not match any configured URIs.")
    return asked


def _return_address(workspace: Workspace, asked: dict[str, str], **parameters: str) -> str:
    address = asked.get("redirect_uri") or workspace.app.redirect_urls[0]
    return f"{address}?{urlencode({**parameters, 'state': asked.get('state', '')})}"
