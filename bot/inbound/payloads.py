"""Reads Slack's interaction payloads: who acted, and where. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blocks.ids import Action, Ref, parse_more, parse_ref
from bot.policy.approvers import Person
from runtime.jsontypes import JsonObject

Body = dict[str, Any]  # Slack's own JSON; each part is checked where it is read


@dataclass(frozen=True, kw_only=True)
class Click:
    """A button that was pressed, or a menu entry that was picked: `action` says which."""

    action: str
    value: str
    ref: Ref | None
    at: str  # when it was clicked, by Slack's clock
    person: Person


def read_click(body: Body) -> Click:
    action: Body = body["actions"][0]
    named, value = str(action["action_id"]), action.get("value")
    ref = parse_ref(value)
    if named == Action.MORE:
        value = (action.get("selected_option") or {}).get("value")
        picked = parse_more(value)
        if picked is not None:
            named, ref = str(picked[0]), picked[1]
    at = str(action.get("action_ts") or body["trigger_id"])
    return Click(action=named, value=str(value or ""), ref=ref, at=at, person=person_of(body))


def person_of(body: Body) -> Person:
    """The person, with their own workspace. Slack may name an organisation instead: then the one in which they act."""
    user = body["user"]
    own = str(user.get("team_id") or "")
    return Person(own if own and not own.startswith("E") else team_of(body), str(user["id"]))


def team_of(body: Body) -> str:
    """The workspace that installed the app, which may differ from the person's."""
    installed = (body.get("view") or {}).get("app_installed_team_id")
    return str(installed or (body.get("team") or {}).get("id") or body["user"].get("team_id") or "")


def team_of_event(body: Mapping[str, Any]) -> str:
    """The workspace that an event or a command comes from."""
    return str(body.get("team_id") or "")


def answer_target(body: Body, voter: Person) -> JsonObject:
    """Where an ephemeral message to the person who clicked belongs: the channel and thread of the card. A list that
    only they see is identified by the URL at which it can be changed.

    A thread and its channel may both show the card (`thread_broadcast`), and Slack's payload has no field for which of
    the two was used. Then it belongs in the channel: somebody who presses in the thread comes back to the channel, on a
    phone too, but somebody who presses in the channel has no reason to open the thread.
    """
    container = body.get("container") or {}
    target: JsonObject = {"user": voter.user}
    for name in ("channel_id", "message_ts", "thread_ts"):
        if container.get(name):
            target[name.removesuffix("_id") if name == "channel_id" else name] = str(container[name])
    message = body.get("message") or {}
    if message.get("thread_ts"):
        target["thread_ts"] = str(message["thread_ts"])
    if message.get("subtype") == "thread_broadcast":
        target.pop("thread_ts", None)
    if (body.get("view") or {}).get("type") == "home":
        target["home"] = True  # drawn again after the vote
    if container.get("is_ephemeral"):
        target.pop("message_ts", None)  # not a card, so it does not update itself
        target["list"] = str(body.get("response_url") or "")
    return target


def click_target(body: Body, voter: Person) -> JsonObject:
    """The same, with the click's trigger: a window can be opened with it, once, for three seconds. Without a trigger
    no window opens.

    >>> click_target({"user": {"id": "U0ANN"}, "team": {"id": "T0ACME"}}, Person("T0ACME", "U0ANN"))
    {'user': 'U0ANN', 'trigger': ''}
    """
    return {**answer_target(body, voter), "trigger": str(body.get("trigger_id") or "")}


def form_target(body: Body, voter: Person) -> JsonObject:
    """Where who submitted a form sees the result: the form is closed, so the submit's trigger opens a window."""
    return {"trigger": str(body.get("trigger_id") or ""), "user": voter.user}


def click_id(voter: Person, *parts: str) -> str:
    """An id for one click or submit. It is the same if Slack delivers it again."""
    return hashlib.sha256("\n".join((voter.team, voter.user, *map(str, parts))).encode()).hexdigest()[:40]
