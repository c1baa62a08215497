"""Tokens: auth.test and auth.revoke."""

from __future__ import annotations

from bot.sandbox.methods.call import Call, Method, Methods
from bot.sandbox.workspace.records import Install
from bot.sandbox.workspace.workspace import Workspace
from runtime.jsontypes import JsonObject


def auth_test(call: Call) -> JsonObject:
    team = call.workspace.directory.team(call.install.team_id)
    return {
        "ok": True, "url": f"https://{team.domain}.slack.com/", "team": team.name, "team_id": team.id,
        "user": call.workspace.app.name, "user_id": call.bot, "bot_id": call.install.bot_id,
        "is_enterprise_install": False,
    }  # fmt: skip


def auth_revoke(call: Call) -> JsonObject:
    if not call.args.flag("test"):
        revoke(call.workspace, call.install)
    return {"ok": True, "revoked": not call.args.flag("test")}


def revoke(workspace: Workspace, install: Install) -> None:
    """The token stops working."""
    install.revoked = True
    workspace.changes.tell("install", team=install.team_id)


METHODS: Methods = {"auth.test": Method(auth_test, per_minute=600), "auth.revoke": Method(auth_revoke)}
