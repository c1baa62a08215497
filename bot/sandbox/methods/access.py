"""Tokens and installations: auth.test, OAuth, uninstalling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bot.sandbox.methods.call import Call, Method, Methods
from bot.sandbox.refusals import ApiRefusal
from bot.sandbox.workspace.records import Install
from bot.sandbox.workspace.workspace import Workspace
from runtime.jsontypes import JsonObject

CODE_LIVES = 600.0
Emit = Callable[[Install, JsonObject], None]


def auth_test(call: Call) -> JsonObject:
    team = call.workspace.directory.team(call.install.team_id)
    answer: JsonObject = {
        "ok": True, "url": f"https://{team.domain}.slack.com/", "team": team.name, "team_id": team.id,
        "user": call.workspace.app.name, "user_id": call.bot, "bot_id": call.install.bot_id,
        "is_enterprise_install": call.install.is_enterprise,
    }  # fmt: skip
    return answer | {"enterprise_id": team.enterprise_id} if team.enterprise_id else answer


def auth_revoke(call: Call) -> JsonObject:
    if not call.args.flag("test"):
        leave(call.workspace, call.install, call.emit, revoke_only=True)
    return {"ok": True, "revoked": not call.args.flag("test")}


def uninstall(call: Call) -> JsonObject:
    check_client(call.workspace, call.args.text("client_id"), call.args.text("client_secret"))
    leave(call.workspace, call.install, call.emit, revoke_only=False)
    return {"ok": True}


def leave(workspace: Workspace, install: Install, emit: Emit, *, revoke_only: bool) -> None:
    """The token stops working. The app gets an event, if it subscribed to it."""
    install.revoked = True
    emit(install, {"type": "tokens_revoked", "tokens": {"oauth": [], "bot": [install.bot_user_id]}})
    if not revoke_only:
        install.active = False
        emit(install, {"type": "app_uninstalled"})
    workspace.changes.tell("install", team=install.team_id)


def change(workspace: Workspace, install: Install, teams: Sequence[str], emit: Emit, *, granted: bool) -> None:
    """The workspaces in which an organisation's token works."""
    if granted:
        install.withheld.difference_update(teams)
    else:
        install.withheld.update(teams)
    emit(install, {"type": f"team_access_{'granted' if granted else 'revoked'}", "team_ids": [*teams]})
    workspace.changes.tell("install", team=install.team_id)


def check_client(workspace: Workspace, client_id: str, client_secret: str) -> None:
    if client_id != workspace.app.client_id:
        raise ApiRefusal("invalid_client_id")
    if client_secret != workspace.app.client_secret:
        raise ApiRefusal("bad_client_secret")


def oauth_access(workspace: Workspace, code: str, redirect_uri: str = "") -> JsonObject:
    """Exchanges a code for an installation: once, within ten minutes, with the same redirect address."""
    kept = workspace.codes.get(code)
    if kept is None or workspace.clock.now() > kept.issued_at + CODE_LIVES:
        raise ApiRefusal("invalid_code")
    if kept.used:
        raise ApiRefusal("code_already_used")
    if redirect_uri != kept.redirect_uri:
        raise ApiRefusal("bad_redirect_uri")
    kept.used = True
    team = workspace.directory.team(kept.team_id)
    return _grant(workspace, workspace.directory.install(team, enterprise_wide=kept.enterprise_wide), kept.user)


def _grant(workspace: Workspace, install: Install, user: str) -> JsonObject:
    team = workspace.directory.team(install.team_id)
    granted: JsonObject = {
        "ok": True, "access_token": install.token, "token_type": "bot", "scope": ",".join(sorted(install.scopes)),
        "bot_user_id": install.bot_user_id, "app_id": workspace.app.id, "authed_user": {"id": user},
        "is_enterprise_install": install.is_enterprise, "enterprise": None, "team": None,
    }  # fmt: skip
    if workspace.token_rotation:
        granted |= {"refresh_token": f"xoxe-1-{install.token.removeprefix('xoxb-')}", "expires_in": 43_200}
    if not install.is_enterprise:
        granted["team"] = {"id": team.id, "name": team.name}
    if install.enterprise_id:
        granted["enterprise"] = {"id": install.enterprise_id, "name": install.enterprise_id}
    return granted


METHODS: Methods = {
    "auth.test": Method(auth_test, per_minute=600),
    "auth.revoke": Method(auth_revoke),
    "apps.uninstall": Method(uninstall, per_minute=1),
}
