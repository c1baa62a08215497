"""Modals and Home tabs."""

from __future__ import annotations

from adk_confirm.sandbox.blockkit.limits import check_blocks, check_view
from adk_confirm.sandbox.methods.call import Call, Method, Methods
from adk_confirm.sandbox.reading import JsonObject, as_object
from adk_confirm.sandbox.refusals import ApiRefusal
from adk_confirm.sandbox.workspace.records import View
from adk_confirm.sandbox.workspace.tickets import Trigger


def _view_json(call: Call, view: View) -> JsonObject:
    return {"ok": True, "view": call.workspace.views.to_json(view, call.install)}


def _trigger(call: Call) -> Trigger:
    """The trigger is checked last, so that a bad view does not use it up."""
    return call.workspace.tickets.check(call.args.required("trigger_id"), _reachable_teams(call))


def _reachable_teams(call: Call) -> frozenset[str]:
    channels = call.workspace.directory.channels.values()
    return call.teams.union(*(each.teams for each in channels if each.teams & call.teams))


def open_view(call: Call) -> JsonObject:
    body = check_view(call.args.json("view"), "modal")
    trigger = _trigger(call)
    view = call.workspace.views.open(trigger.team_id, trigger.user, body)
    trigger.used = True
    return _view_json(call, view)


def update_view(call: Call) -> JsonObject:
    view = call.workspace.views.find(call.args.required("view_id"))
    if view.team_id not in _reachable_teams(call):
        raise ApiRefusal("not_found")
    body = check_view(call.args.json("view"), view.kind)
    return _view_json(call, call.workspace.views.update(view, body, call.args.text("hash")))


def publish_view(call: Call) -> JsonObject:
    user = call.user(call.args.required("user_id"))
    if not call.workspace.app.home_enabled:
        raise ApiRefusal("not_enabled")
    body = check_view(call.args.json("view"), "home")
    view = call.workspace.views.publish(user.team_id, user.id, body, call.args.text("hash"))
    return _view_json(call, view)


def validate(call: Call) -> JsonObject:
    """What Slack would refuse, without posting it."""
    given = [name for name in ("blocks", "message", "view") if name in call.args]
    if len(given) != 1:
        raise ApiRefusal("invalid_arguments", messages=["[ERROR] exactly one of blocks, message and view is required"])
    shown = call.args.json(given[0])
    if given == ["view"]:
        check_view(shown, "home" if as_object(shown).get("type") == "home" else "modal")
    else:
        check_blocks(shown if given == ["blocks"] else as_object(shown).get("blocks"))
    return {"ok": True}


METHODS: Methods = {
    "blocks.validate": Method(validate, per_minute=100),
    "views.open": Method(open_view, per_minute=100),
    "views.update": Method(update_view, per_minute=100),
    "views.publish": Method(publish_view, per_minute=100),
}
