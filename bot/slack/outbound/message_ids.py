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
    """Marks a part of an agent's message; `event` is the agent's own id for it. `lines`: the first and the last ledger
    line that are above it in the same message."""

    session: str
    event: str
    part: int
    lines: tuple[int, int] | None = None

    def metadata(self) -> JsonObject:
        payload: JsonObject = {"session": self.session, "event": self.event, "part": self.part}
        if self.lines is not None:
            payload |= {"first_line": self.lines[0], "told_seq": self.lines[1]}
        return {"event_type": SAID_EVENT, "event_payload": payload}


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


def lines_in(metadata: Json, session: str) -> range:
    """The numbers of the session's ledger lines that a message is known to show. A message of lines names its last."""
    match parse_mark(metadata):
        case LineMark(of, seq) if of == session:
            return range(seq, seq + 1)
    payload = metadata.get("event_payload") if isinstance(metadata, Mapping) else None
    match dict(payload) if isinstance(payload, Mapping) else {}:
        case {"session": str() as of, "event": str(), "first_line": int() as first, "told_seq": int() as last}:
            return range(first, last + 1) if of == session else range(0)
    return range(0)
