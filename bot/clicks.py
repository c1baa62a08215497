"""What Slack's interactions say: who acted, through which installation, where they look. Pure."""

from __future__ import annotations

import hashlib
from typing import Any

from blocks.ids import Ref, parse_ref
from bot.people import Person
from runtime.jsontypes import JsonObject

Body = dict[str, Any]  # Slack's own JSON; what is taken from it is checked where it is taken


def read_click(body: Body) -> tuple[Body, Ref | None, Person]:
    action: Body = body["actions"][0]
    return action, parse_ref(action.get("value")), person_of(body)


def person_of(body: Body) -> Person:
    user = body["user"]
    return Person(str(user.get("team_id") or team_of(body)), str(user["id"]))


def team_of(body: Body) -> str:
    """The workspace that the app was installed in, which is not always the one of who clicked."""
    team = body.get("team") or {}
    installed = (body.get("view") or {}).get("app_installed_team_id")
    return str(installed or team.get("id") or body["user"].get("team_id") or "")


def enterprise_of(body: Body) -> str | None:
    """The organisation that the workspace belongs to, if any."""
    enterprise = body.get("enterprise") or {}
    return str(enterprise.get("id") or "") or None


def beside(body: Body, voter: Person) -> JsonObject:
    """Where somebody who clicked looks: the view, or the channel and thread of the card. A list that only they see is
    known by the address at which it can be changed."""
    container = body.get("container") or {}
    target: JsonObject = {"team": team_of(body), "user": voter.user}
    for name in ("channel_id", "message_ts", "thread_ts"):
        if container.get(name):
            target[name.removesuffix("_id") if name == "channel_id" else name] = str(container[name])
    message = body.get("message") or {}
    if message.get("thread_ts"):
        target["thread_ts"] = str(message["thread_ts"])
    if container.get("is_ephemeral"):
        target.pop("message_ts", None)  # no card: it does not change by itself
        target["list"] = str(body.get("response_url") or "")
    return target


def once(voter: Person, *parts: str) -> str:
    """A name for one click or one submit: the same when Slack delivers it again."""
    return hashlib.sha256("\n".join((voter.team, voter.user, *map(str, parts))).encode()).hexdigest()[:40]
