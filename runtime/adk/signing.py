"""Announcements and signatures that the bot and the plugin exchange in addition to ADK's protocol. Pure; imports
nothing of google's.

The plugin and our own runtime announce themselves in the `customMetadata` of a request's event. The bot marks its own
messages there, if the server keeps it. An answer to a confirmation is signed in its `hint`, the only key that ADK
accepts and never reads. Any other answer goes to the agent unchanged, so its signature is in the `customMetadata` of
its message.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

import pydantic
from pydantic.alias_generators import to_camel

from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, canonical
from adk_confirm.runtime.wire import REQUEST_INPUT as REQUEST_INPUT

OUR_API = "adk-confirm"
"""The title of our own API in its `/openapi.json`, by which a bot recognises it."""

MARK = "adkConfirmMark"
ANNOUNCEMENTS = "adkConfirm"
SIGNATURES = "adkConfirmSigned"
_SIGNED = "adk-confirm v1 "
SECRET_ENV = "ADK_CONFIRM_PLUGIN_SECRET"  # noqa: S105  (the variable's name)
SECRET_BEFORE_ENV = f"{SECRET_ENV}_BEFORE"
SHORTEST = 16

GOOD_FOR = 600.0
"""Seconds for which a signature is good, once. The bot signs anew each time it sends an answer."""

PLUGIN = "adk_confirm_plugin"
"""The name of the call with which the bot asks whether the plugin is there."""


class PluginSays(StrEnum):
    """What the plugin says when it refuses something. The bot recognises the words."""

    NOT_SIGNED = "Not signed with the plugin's secret, or too long ago, or used already"
    OPEN = "adk-confirm's plugin is here, and asks for no signature."
    FITS = "adk-confirm's plugin is here, and this signature fits."


UNSIGNED = f"{PluginSays.NOT_SIGNED}: an answer for this agent counts once, and only from a bot that has the secret."


@pydantic.dataclasses.dataclass(
    frozen=True, kw_only=True, config=pydantic.ConfigDict(alias_generator=to_camel, validate_by_name=True)
)
class Announcement:
    """What the plugin says about a call: whether a gate holds it, whether the tool gets its arguments as they are
    written, whether edited ones reach it, whether answers must be signed, the schemas of its arguments and of the
    payload that it asks for, the values that the tool fills in for arguments that the model left out, the tool's title
    for it, its preview (`{"shows": …}` or `{"failed": "…"}`), the approved one if the preview has changed since,
    whether people edited the call after they saw that one, and the number of earlier attempts with unknown effects."""

    gated: bool
    bound: bool = True
    edits: bool = False
    signed: bool = False
    schema: JsonObject | None = None
    payload_schema: JsonObject | None = None
    defaults: JsonObject = field(default_factory=dict)
    title: str | None = None
    preview: JsonObject | None = None
    approved_preview: JsonObject | None = None
    attempts: Annotated[int, pydantic.Field(ge=1, le=1_000_000)] | None = None
    edited_unseen: bool = False


_ANNOUNCED = pydantic.TypeAdapter(Announcement)


def announcement_metadata(calls: dict[str, Announcement]) -> JsonObject:
    """The metadata of an event that asks, by call id."""
    announced = {call: _ANNOUNCED.dump_python(one, by_alias=True, exclude_none=True) for call, one in calls.items()}
    return {ANNOUNCEMENTS: {"calls": {**announced}}}


def announcement_about(metadata: JsonObject | None, call_id: str) -> Announcement | None:
    """The plugin's announcement about this call. None if there is no plugin."""
    calls = as_object(as_object((metadata or {}).get(ANNOUNCEMENTS)).get("calls"))
    try:
        return _ANNOUNCED.validate_python({"bound": False, **as_object(calls.get(call_id))})
    except pydantic.ValidationError:
        return None


REQUEST_CREDENTIAL = "adk_request_credential"
WORKFLOW_CONFIRMATION = "wf_tool_confirmation:"
"""The prefix of the id of a request for a workflow node's confirmation. A node uses its id again and again."""


def bound_to_event(request: str, event: str) -> str:
    """The name under which a request is signed if its id may be used again. It names the request of that event."""
    return f"{request}@{event}"


@dataclass(frozen=True, kw_only=True)
class _Signed:
    """A signature is for one request of one session. `request` is the request's id, or `bound_to_event`. `nth` counts
    earlier answers, so that a copied signature is worth nothing."""

    app: str
    user: str
    session: str
    request: str
    nth: int = 0

    def sign(self, secret: str, until: float) -> str:
        """Signs all fields, and until when the signature is good."""
        content = canonical([round(until * 1000), type(self).__name__, vars(self)]).encode("utf-8", "surrogatepass")
        digest = hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()
        return f"{_SIGNED}{round(until * 1000)} {digest}"

    def signed_by(self, secret: str, signature: object) -> bool:
        """Whether this signature was ever made of these fields. `expiry_of` says until when it is good."""
        if not isinstance(signature, str):
            return False
        return hmac.compare_digest(self.sign(secret, expiry_of(signature)).encode(), signature.encode())


@dataclass(frozen=True, kw_only=True)
class SignedAnswer(_Signed):
    """A signed answer to a confirmation of this call with this preview, and of no other."""

    tool: str
    arguments: JsonObject
    defaults: JsonObject = field(default_factory=dict)
    confirmed: bool
    payload: Json = None
    preview: JsonObject | None = None


@dataclass(frozen=True, kw_only=True)
class SignedResponse(_Signed):
    """Any other signed answer: this response, under this name, to what the session waits for."""

    name: str
    response: JsonObject


def plugin_question(app: str, user: str, session: str) -> SignedResponse:
    """What the bot signs when it asks the plugin whether their secrets are the same."""
    return SignedResponse(app=app, user=user, session=session, request=PLUGIN, name=PLUGIN, response={})


def expiry_of(signature: str) -> float:
    """Until when the signature is good. 0 if it is none."""
    until = signature.removeprefix(_SIGNED).partition(" ")[0]
    return int(until) / 1000 if until.isascii() and until.isdecimal() and len(until) < 16 else 0.0


def signatures_in(metadata: JsonObject | None) -> JsonObject:
    """The signatures in a message, each under the id of the request that it answers."""
    return as_object((metadata or {}).get(SIGNATURES))


def checked_secret(secret: str, name: str = "The plugin's secret") -> str:
    """Refuses short secrets: signatures are in the session, where others may read them and try secrets."""
    if len(secret) < SHORTEST:
        raise Invalid(f"{name} must have {SHORTEST} characters or more; `openssl rand -hex 32` makes one.")
    return secret


@dataclass
class Turn:
    """A run that has its turn, and what it has to remember."""

    run: object
    task: asyncio.Task[object] | None
    released: asyncio.Event = field(default_factory=asyncio.Event)
    asking: dict[str, Announcement] = field(default_factory=dict)
    """Announcements, by the id of the call or of a node's request, until the event that asks passes."""
    accepted: set[object] = field(default_factory=set)
    """The signatures of the answers that this run acts on."""

    def has_ended(self, task: asyncio.Task[object] | None) -> bool:
        """Whether its run broke off: its task has ended, or asks for another turn."""
        return self.task is None or self.task is task or self.task.done()


class Turns:
    """Gives runs their turn. A turn ends when its run says so, or with the task of a run that breaks off."""

    def __init__(self) -> None:
        self._holders: dict[Hashable, Turn] = {}

    async def take(self, key: Hashable, run: object) -> bool:
        """Waits for this run's turn. Returns whether it had to wait."""
        here, task = (asyncio.get_running_loop(), key), asyncio.current_task()
        while (holder := self._holders.get(here)) is not None and holder.run is not run and not holder.has_ended(task):
            await holder.released.wait()
        if holder is not None and holder.run is run:
            return False
        if holder is not None:
            self._end(here, holder)
        mine = self._holders[here] = Turn(run, task)
        if task is not None:
            task.add_done_callback(lambda _: self._end(here, mine))
        return True

    def of(self, key: Hashable) -> Turn:
        """The turn under way for this key. If no run took one, an empty turn."""
        return self._holders.get((asyncio.get_running_loop(), key)) or Turn(None, None)

    def leave(self, key: Hashable, run: object) -> None:
        here = (asyncio.get_running_loop(), key)
        holder = self._holders.get(here)
        if holder is not None and holder.run is run:
            self._end(here, holder)

    def _end(self, here: Hashable, holder: Turn) -> None:
        if self._holders.get(here) is holder:
            del self._holders[here]
        holder.released.set()
