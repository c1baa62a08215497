"""Reads what Slack sends: who acted, where they look, and which messages are for the agent. Pure.

A field that no listener needs may have any shape, so that no click is lost when Slack changes it. The fields that a
listener needs are read here. If one is missing, `NotSlacks` is raised.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adk_confirm.blocks.click_ids import Action, Ref, parse_more, parse_ref
from adk_confirm.bot.confirmation.confirmation import Seat
from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.store.letters import SlackMessage
from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, as_text, objects

Body = dict[str, Any]  # Slack's own JSON; each part is checked where it is read

_TAKEN = (None, "thread_broadcast", "file_share")
_FILE_FIELDS = ("id", "name", "mimetype", "size", "url_private_download")
_ID = re.compile("[!-~]{1,255}")


class NotSlacks(ConfirmError):
    """Slack sends nothing like this."""


def ident(value: Json) -> str:
    """An id, a timestamp and the like: what goes into columns, and is compared. Empty if there is none."""
    if isinstance(value, str) and value and not _ID.fullmatch(value):
        raise NotSlacks("An id is longer than 255 characters, or has others than printable ones.")
    return as_text(value)


def needed(body: Mapping[str, Json], name: str) -> str:
    """An id without which nothing can be done."""
    found = ident(body.get(name))
    if not found:
        raise NotSlacks(f"There is no {name}.")
    return found


# Clicks and forms


@dataclass(frozen=True, kw_only=True)
class Click:
    """A button that was pressed, or a menu entry that was picked: `action` says which."""

    action: str
    value: str
    ref: Ref | None
    at: str  # when it was clicked, by Slack's clock
    seat: Seat
    url: str  # Slack's address for an answer that only this person sees


def read_click(body: Body) -> Click:
    action = next(iter(objects(body.get("actions"))), {})
    named, value = as_text(action.get("action_id")), as_text(action.get("value"))
    ref = parse_ref(value)
    if named == Action.MORE:
        value = as_text(as_object(action.get("selected_option")).get("value"))
        picked = parse_more(value)
        if picked is not None:
            named, ref = str(picked[0]), picked[1]
    at = as_text(action.get("action_ts")) or as_text(body.get("trigger_id"))
    return Click(action=named, value=value, ref=ref, at=at, seat=seat_of(body), url=as_text(body.get("response_url")))


def person_of(body: Body) -> Person:
    """The person, with their own workspace. If Slack names an organisation instead: the workspace they act in."""
    user = as_object(body.get("user"))
    return Person(_workspace(user.get("team_id")) or team_of(body), needed(user, "id"))


def _workspace(*named: Json) -> str:
    """The first workspace that is named. An organisation is none."""
    return next((team for team in map(ident, named) if team and not team.startswith("E")), "")


def team_of(body: Mapping[str, Any]) -> str:
    """The workspace that installed the app, which may differ from the person's. `team_id` of an event in a shared
    channel is the workspace that made the channel."""
    view, team, user = (as_object(body.get(part)) for part in ("view", "team", "user"))
    app = next(iter(objects(body.get("authorizations"))), body)
    named = view.get("app_installed_team_id"), team.get("id"), app.get("team_id"), user.get("team_id")
    return next(filter(None, map(ident, named)), "")


def seat_of(body: Body) -> Seat:
    """Where the person who clicked is answered: at the card, in its channel and thread.

    A thread and its channel may both show the card (`thread_broadcast`), and Slack's payload has no field for which of
    the two was used. Then it belongs in the channel: somebody who presses in the thread comes back to the channel, on a
    phone too, but somebody who presses in the channel has no reason to open the thread.
    """
    container, message, view = (as_object(body.get(part)) for part in ("container", "message", "view"))
    private = bool(container.get("is_ephemeral"))
    thread_ts = ident(message.get("thread_ts")) or ident(container.get("thread_ts"))
    return Seat(
        person=person_of(body),
        team=team_of(body),
        channel=ident(container.get("channel_id")),
        thread_ts="" if message.get("subtype") == "thread_broadcast" else thread_ts,
        message="" if private else ident(container.get("message_ts")),  # a list is no card to be drawn again
        home=view.get("type") == "home",
        lists=private and bool(body.get("response_url")),
        window=ident(view.get("id")) if view.get("type") == "modal" else "",
        trigger=as_text(body.get("trigger_id")),
    )


def form_values(view: JsonObject) -> JsonObject:
    """The fields of a submitted form, by block and name."""
    blocks = as_object(as_object(view.get("state")).get("values"))
    return {
        block: {name: field for name, field in fields.items() if isinstance(field, dict)}
        for block, fields in blocks.items()
        if isinstance(fields, dict)
    }


def click_id(voter: Person, *parts: str) -> str:
    """An id for one click or submit. It is the same if Slack delivers it again."""
    return hashlib.sha256("\n".join((voter.team, voter.user, *parts)).encode()).hexdigest()[:40]


# Messages


@dataclass(frozen=True)
class AddressedMessage:
    """A message, and whether it names the agent (a mention or a direct message) or is a plain reply. `stops`: it asks
    to stop something."""

    heard: SlackMessage
    by_name: bool
    stops: bool = False


_STOPS = re.compile(
    r"(?:(?:no|please|oh|hey|ok)\W+)*(?:wait|stop|cancel|halt|abort|hold on|don['’]t|do not)"
    r"(?:\W+(?:it|that|this|please|now|a|minute|moment|sec|second|do|run))*\W*",
    re.IGNORECASE,
)


def is_ignored(body: Mapping[str, Json]) -> bool:
    """Whether this is a message event that the agent never reads: a bot's message, such as each of our own posts, or an
    edit."""
    event = as_object(body.get("event"))
    return event.get("type") == "message" and _is_ignored(event)


def _is_ignored(event: Mapping[str, Json]) -> bool:
    return event.get("subtype") not in _TAKEN or bool(event.get("bot_id") or event.get("hidden"))


def read_message_event(body: Mapping[str, Json], app: str, bot_user: str) -> AddressedMessage | None:
    """Reads a message event. Slack sends two events for one mention; both give the same `SlackMessage`."""
    event = as_object(body.get("event"))
    if _is_ignored(event):
        return None
    team, (channel, ts, user) = team_of(body), (ident(event.get(part)) for part in ("channel", "ts", "user"))
    if not (team and channel and ts and user) or user == bot_user:
        return None  # one of our cards that is also shown in its channel comes back as a message
    text = as_text(event.get("text"))
    mentioned = f"<@{bot_user}>" in text
    direct = event.get("channel_type") == "im" or channel.startswith("D")
    thread_ts = ident(event.get("thread_ts"))
    if not (mentioned or direct or thread_ts):
        return None
    heard = SlackMessage(
        app=app,
        team=team,
        channel=channel,
        thread_ts=thread_ts or ts,
        ts=ts,
        person=Person(_workspace(event.get("user_team"), event.get("team")) or team, user),
        text=without_mention(text, bot_user),
        files=tuple({name: file.get(name) for name in _FILE_FIELDS} for file in objects(event.get("files"))),
    )
    return AddressedMessage(heard, by_name=mentioned or direct, stops=_STOPS.fullmatch(heard.text) is not None)


def without_mention(text: str, bot_user: str) -> str:
    """The text as the person meant it: without our name, with entities decoded and links readable. A link with another
    label than its address gets both, since the label may be all that the person sees of it, or say something else."""
    text = text.replace(f"<@{bot_user}>", "")
    text = re.sub(r"<((?:https?://|mailto:)([^>|]+))(?:\|([^>]*))?>", _link, text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").strip()


def _link(found: re.Match[str]) -> str:
    url, bare, label = found[1], found[2], found[3]
    return label or url if label in (None, "", url, bare) else f"{label} ({url})"
