"""Tokens: auth.test."""

from __future__ import annotations

from adk_confirm.sandbox.methods.call import Call, Method, Methods
from adk_confirm.sandbox.reading import JsonObject


def auth_test(call: Call) -> JsonObject:
    team = call.workspace.directory.team(call.install.team_id)
    return {
        "ok": True, "url": f"https://{team.domain}.slack.com/", "team": team.name, "team_id": team.id,
        "user": call.workspace.app.name, "user_id": call.bot, "bot_id": call.install.bot_id,
        "is_enterprise_install": False,
    }  # fmt: skip


METHODS: Methods = {"auth.test": Method(auth_test, per_minute=600)}
