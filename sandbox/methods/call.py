"""One call of the Web API, as its method sees it: the arguments, the token, and what the token may change."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from adk_confirm.sandbox.reading import Json, JsonObject, as_text
from adk_confirm.sandbox.refusals import ApiRefusal, NotFound
from adk_confirm.sandbox.workspace.records import Channel, Install, Message, User
from adk_confirm.sandbox.workspace.workspace import Workspace

T = TypeVar("T")
_MOMENT = re.compile(r"[0-9]{1,10}(\.[0-9]{1,6})?")
_READ = {"public": "channels", "private": "groups", "im": "im", "mpim": "mpim"}


class Args:
    """The arguments. In a JSON body they have types; in a form all are text, and objects are JSON texts."""

    def __init__(self, values: JsonObject) -> None:
        self.values = values

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) is not None

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if value is None:
            return ""
        if isinstance(value, (dict, list)):
            raise ApiRefusal("invalid_arguments", messages=[f"[ERROR] must be a string [json-pointer:/{name}]"])
        return value if isinstance(value, str) else json.dumps(value)

    def required(self, name: str) -> str:
        value = self.text(name)
        if not value:
            raise ApiRefusal("invalid_arguments", messages=[f"[ERROR] missing required field: {name}"])
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.values.get(name)
        return default if value is None else value in (True, 1, "1", "true", "True")

    def number(self, name: str, default: int) -> int:
        value = self.text(name)
        if not value:
            return default
        if not value.isascii() or not value.isdigit():
            raise ApiRefusal("invalid_arguments", messages=[f"[ERROR] must be a number [json-pointer:/{name}]"])
        return int(value)

    def moment(self, name: str, default: str) -> str:
        """A message's timestamp."""
        value = self.text(name) or default
        if not _MOMENT.fullmatch(value):
            raise ApiRefusal("invalid_ts_" + name)
        return value

    def json(self, name: str, refusal: str = "invalid_arguments") -> Json:
        value = self.values.get(name)
        if not isinstance(value, str):
            return value
        try:
            parsed: Json = json.loads(value)
        except ValueError as error:
            raise ApiRefusal(refusal, messages=[f"[ERROR] no JSON [json-pointer:/{name}]"]) from error
        return parsed


@dataclass(frozen=True, slots=True)
class Call:
    workspace: Workspace
    args: Args
    install: Install
    base: str
    """This Slack's address, without a trailing slash."""
    emit: Callable[[Install, JsonObject], None]
    """Sends the app an event."""

    @property
    def now(self) -> float:
        return self.workspace.clock.now()

    @property
    def teams(self) -> frozenset[str]:
        """The workspace that this token reaches."""
        return frozenset({self.install.team_id})

    @property
    def bot(self) -> str:
        return self.install.bot_user_id

    def need(self, scope: str) -> None:
        if scope not in self.install.scopes:
            provided = ",".join(sorted(self.install.scopes))
            raise ApiRefusal("missing_scope", extra={"needed": scope, "provided": provided})

    def channel(self, name: str = "channel") -> Channel:
        """A channel that the app can see: a public one, or one that it is in."""
        found = self.workspace.directory.channels.get(self.args.required(name))
        if found is None or not found.teams & self.teams:
            raise ApiRefusal("channel_not_found")
        if found.kind != "public" and self.bot not in found.members:
            raise ApiRefusal("channel_not_found")
        return found

    def scoped(self, channel: Channel, right: Literal["read", "history"]) -> None:
        self.need(f"{_READ[channel.kind]}:{right}")

    def writable(self, name: str = "channel") -> Channel:
        channel = self._direct(self.args.required(name)) or self.channel(name)
        if self.bot not in channel.members and "chat:write.public" not in self.install.scopes:
            raise ApiRefusal("not_in_channel")
        if channel.is_archived:
            raise ApiRefusal("is_archived")
        return channel

    def _direct(self, user_id: str) -> Channel | None:
        """A post to a person's id goes to the direct message with them."""
        user = self.workspace.directory.users.get(user_id)
        if user is None or not self.sees(user):
            return None
        return self.workspace.directory.direct(user.team_id, user.id, self.bot)

    def own(self, channel: Channel, ts: str, refusal: str) -> Message:
        """A message of this app. It may change no others."""
        found = channel.messages.get(ts)
        if found is None:
            raise ApiRefusal("message_not_found")
        if found.user != self.bot:
            raise ApiRefusal(refusal)
        return found

    def sees(self, user: User) -> bool:
        if user.team_id in self.teams:
            return True
        channels = self.workspace.directory.channels.values()
        return any({user.id, self.bot} <= channel.members for channel in channels if channel.is_ext_shared)

    def user(self, user_id: str, refusal: str = "user_not_found") -> User:
        try:
            user = self.workspace.directory.user(user_id)
        except NotFound as error:
            raise ApiRefusal(refusal) from error
        if not self.sees(user):
            raise ApiRefusal(refusal)
        return user

    def page(self, items: Sequence[T], most: int = 1000, default: int = 100) -> tuple[Sequence[T], str]:
        """The page for `cursor` and `limit`, and the next cursor."""
        limit = self.args.number("limit", default)
        if not 1 <= limit <= most:
            raise ApiRefusal("invalid_limit")
        start = _offset(self.args.text("cursor"))
        end = start + limit
        return items[start:end], base64.b64encode(f"next:{end}".encode()).decode() if end < len(items) else ""


@dataclass(frozen=True, slots=True)
class Method:
    run: Callable[[Call], JsonObject]
    scope: str = ""
    per_minute: int = 50
    auth: Literal["bot", "app", "none"] = "bot"


Methods = dict[str, Method]


@dataclass(slots=True)
class CallRecord:
    """The record of a call."""

    method: str
    args: JsonObject
    at: float
    team_id: str = ""
    status: int = 0
    answer: JsonObject = field(default_factory=dict)
    acted: bool = False
    fault: str = ""

    @property
    def error(self) -> str:
        code = self.answer.get("error")
        return as_text(code)


def paged(answer: JsonObject, cursor: str) -> JsonObject:
    return {**answer, "response_metadata": {"next_cursor": cursor}}


def _offset(cursor: str) -> int:
    if not cursor:
        return 0
    try:
        return int(base64.b64decode(cursor, validate=True).decode().removeprefix("next:"))
    except (binascii.Error, UnicodeDecodeError, ValueError) as error:
        raise ApiRefusal("invalid_cursor") from error
