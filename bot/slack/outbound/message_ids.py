"""The identity of each of our messages, in its `metadata`. It stays the same when the text changes. Pure.

The identities of cards and ledger lines are in `blocks.ids`, those of all other messages are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from blocks.ids import CardMark, LineMark, parse_mark
from runtime.jsontypes import Json, JsonObject

SAID_EVENT = "adk_confirmation_said"
POINTER_EVENT = "adk_confirmation_pointer"

MessageId = tuple[str | int, ...]


@dataclass(frozen=True)
class SaidMark:
    """Marks a part of an agent's message; `event` is the agent's own id for it."""

    session: str
    event: str
    part: int

    def metadata(self) -> JsonObject:
        return {
            "event_type": SAID_EVENT,
            "event_payload": {"session": self.session, "event": self.event, "part": self.part},
        }


@dataclass(frozen=True)
class PointerMark:
    """The line in a session's thread that leads to a card elsewhere."""

    confirmation: str

    def metadata(self) -> JsonObject:
        return {"event_type": POINTER_EVENT, "event_payload": {"confirmation": self.confirmation}}


def identity(metadata: Json) -> MessageId | None:
    """The identity of a message, which stays the same when it is drawn again. None for a message that is not ours.

    >>> identity(CardMark("k1", 1, 3).metadata()) == identity(CardMark("k1", 2, 9).metadata())
    True
    """
    match parse_mark(metadata):
        case CardMark(confirmation):
            return ("card", confirmation)
        case LineMark(session, seq):
            return ("lines", session, seq)
    if not isinstance(metadata, Mapping) or not isinstance(payload := metadata.get("event_payload"), Mapping):
        return None
    match metadata.get("event_type"), dict(payload):
        case "adk_confirmation_said", {"session": str() as session, "event": str() as event, "part": int() as part}:
            return ("said", session, event, part)
        case "adk_confirmation_pointer", {"confirmation": str() as confirmation}:
            return ("pointer", confirmation)
    return None
