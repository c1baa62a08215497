"""Decides which messages in Slack are meant for the agent, and extracts their text. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bot.inbound.payloads import team_of_event
from bot.policy.approvers import Person
from bot.store.incoming_words import SlackMessage
from runtime.jsontypes import Json, JsonObject, as_text, objects

_TAKEN = (None, "thread_broadcast", "file_share")
_FILE_FIELDS = ("id", "name", "mimetype", "size", "url_private_download")


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
    event = body.get("event")
    return isinstance(event, dict) and event.get("type") == "message" and _is_ignored(event)


def _is_ignored(event: Mapping[str, Json]) -> bool:
    return event.get("subtype") not in _TAKEN or bool(event.get("bot_id") or event.get("hidden"))


def read_message_event(body: Mapping[str, Json], app: str, bot_user: str) -> AddressedMessage | None:
    """Reads a message event. Slack sends two events for one mention; both give the same `SlackMessage`."""
    event = body.get("event")
    if not isinstance(event, dict) or _is_ignored(event):
        return None
    team = team_of_event(body)
    channel, ts, user = (as_text(event.get(part)) for part in ("channel", "ts", "user"))
    if not (team and channel and ts and user) or user == bot_user:
        return None  # one of our cards that is also shown in its channel comes back as a message
    text = as_text(event.get("text"))
    mentioned = f"<@{bot_user}>" in text
    direct = event.get("channel_type") == "im" or channel.startswith("D")
    thread_ts = as_text(event.get("thread_ts"))
    if not (mentioned or direct or thread_ts):
        return None
    heard = SlackMessage(
        app=app,
        team=team,
        channel=channel,
        thread_ts=thread_ts or ts,
        ts=ts,
        person=Person(_workspace_of(event) or team, user),
        text=without_mention(text, bot_user),
        files=tuple(_files(event.get("files"))),
    )
    return AddressedMessage(heard, by_name=mentioned or direct, stops=_STOPS.fullmatch(heard.text) is not None)


def _workspace_of(event: Mapping[str, Json]) -> str:
    """The author's own workspace. Unlike for a click, Slack may name the organisation here."""
    teams = (as_text(event.get("user_team")), as_text(event.get("team")))
    return next((team for team in teams if team and not team.startswith("E")), "")


def without_mention(text: str, bot_user: str) -> str:
    """The text as the person meant it: without our name, with entities decoded and links readable. A link with another
    label than its address gets both, since the label may be all that the person sees of it, or say something else."""
    text = text.replace(f"<@{bot_user}>", "")
    text = re.sub(r"<((?:https?://|mailto:)([^>|]+))(?:\|([^>]*))?>", _link, text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").strip()


def _link(found: re.Match[str]) -> str:
    url, bare, label = found[1], found[2], found[3]
    return label or url if label in (None, "", url, bare) else f"{label} ({url})"


def _files(files: Json) -> list[JsonObject]:
    return [{name: file.get(name) for name in _FILE_FIELDS} for file in objects(files)]
