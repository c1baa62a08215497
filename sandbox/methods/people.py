"""Users and user groups."""

from __future__ import annotations

from adk_confirm.sandbox.methods.call import Call, Method, Methods, paged
from adk_confirm.sandbox.reading import JsonObject
from adk_confirm.sandbox.refusals import ApiRefusal
from adk_confirm.sandbox.workspace.records import Group, User


def _user_json(call: Call, user: User) -> JsonObject:
    return user.to_json(call.now, call.install.team_id, "users:read.email" in call.install.scopes)


def user_info(call: Call) -> JsonObject:
    return {"ok": True, "user": _user_json(call, call.user(call.args.required("user")))}


def user_list(call: Call) -> JsonObject:
    everyone = [user for user in call.workspace.directory.users.values() if user.team_id in call.teams]
    page, cursor = call.page(everyone, default=1000)
    return paged({"ok": True, "members": [_user_json(call, user) for user in page], "cache_ts": int(call.now)}, cursor)


def user_by_email(call: Call) -> JsonObject:
    email = call.args.required("email").lower()
    for user in call.workspace.directory.users.values():
        if user.email.lower() == email and user.team_id in call.teams and not user.deleted:
            return {"ok": True, "user": _user_json(call, user)}
    raise ApiRefusal("users_not_found")


def _groups(call: Call) -> list[Group]:
    team_id = call.install.team_id
    hidden_too = call.args.flag("include_disabled")
    groups = call.workspace.directory.groups.values()
    return [group for group in groups if group.team_id == team_id and (hidden_too or not group.disabled)]


def group_list(call: Call) -> JsonObject:
    with_users = call.args.flag("include_users")
    return {"ok": True, "usergroups": [group.to_json(call.now, with_users=with_users) for group in _groups(call)]}


def group_users(call: Call) -> JsonObject:
    wanted = call.args.required("usergroup")
    for group in _groups(call):
        if group.id == wanted:
            return {"ok": True, "users": [*group.members]}
    raise ApiRefusal("no_such_subteam")


METHODS: Methods = {
    "users.info": Method(user_info, "users:read", per_minute=100),
    "users.list": Method(user_list, "users:read", per_minute=20),
    "users.lookupByEmail": Method(user_by_email, "users:read.email"),
    "usergroups.list": Method(group_list, "usergroups:read", per_minute=20),
    "usergroups.users.list": Method(group_users, "usergroups:read", per_minute=20),
}
