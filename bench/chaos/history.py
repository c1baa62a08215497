"""The results of a run, as data: what people said and clicked, what the tools did, what Slack and the ledger show.

The checks see nothing else, so each of them can be tested with a forged history.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from adk_confirm.runtime.jsontypes import JsonObject

Place = tuple[str, str]
"""A channel and a thread."""
Kind = Literal["card", "pointer", "lines", "said", "other"]


@dataclass(frozen=True)
class RequestedCall:
    """A call that somebody requested from the agent."""

    ticket: str
    tool: str
    amount: int
    asker: str
    thread: Place


@dataclass(frozen=True)
class SpokenMessage:
    """A message to the agent. `heard`: Slack got an acknowledgement. `answer` is what the agent has to reply."""

    at: float
    who: str
    thread: Place
    words: str
    heard: bool
    answer: str = ""


@dataclass(frozen=True)
class ClickRecord:
    """One gesture: a button, or a form that was sent. `same` identifies the vote: a vote that is sent twice is one
    vote.

    `amount` is the amount on the card or in the form. `answer` is what a form showed in the end.
    """

    at: float
    ticket: str
    confirmation: str
    who: str
    how: str
    amount: int
    acked: bool
    same: str
    form: bool = False
    answer: str = ""


@dataclass(frozen=True)
class Effect:
    """A line of the tools' own log."""

    at: float
    phase: Literal["begins", "ends"]
    tool: str
    ticket: str
    amount: int
    call: str
    pid: int = 0


@dataclass(frozen=True)
class Message:
    """A message of the app in its final form. `about`: whose card, which session's lines, which event's answer."""

    place: Place
    ts: str
    kind: Kind
    about: str
    text: str
    buttons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Whisper:
    """A message that only one person saw, in a window or in a channel."""

    place: Place
    who: str
    text: str


@dataclass(frozen=True)
class Entry:
    """A line of the ledger, as `audit export` writes it."""

    session: str
    seq: int
    at: str
    kind: str
    confirmation: str
    tool: str
    content: JsonObject

    @property
    def who(self) -> str:
        who = self.content.get("who")
        return str(who.get("user") or "") if isinstance(who, dict) else ""


@dataclass(frozen=True)
class NewWork:
    """New work after all faults ended: seconds until its card, and seconds from the click until its tool began."""

    ticket: str
    card: float | None
    began: float | None


@dataclass(frozen=True)
class FaultRecord:
    """A fault, and when it happened."""

    at: float
    what: str
    seconds: float


@dataclass(frozen=True)
class History:
    asked: tuple[RequestedCall, ...] = ()
    said: tuple[SpokenMessage, ...] = ()
    clicked: tuple[ClickRecord, ...] = ()
    effects: tuple[Effect, ...] = ()
    messages: tuple[Message, ...] = ()
    whispers: tuple[Whisper, ...] = ()
    ledger: tuple[Entry, ...] = ()
    names: dict[str, str] = field(default_factory=dict)
    """People by their ids."""
    tickets: dict[str, str] = field(default_factory=dict)
    """Tickets by the id of their confirmation."""
    verified: tuple[int, str] = (0, "")
    """The output of `audit verify`, and its exit code."""
    owed: tuple[str, ...] = ()
    """Rows that still had something to do when the run stopped waiting."""
    renewed: tuple[NewWork, ...] = ()
    happened: tuple[FaultRecord, ...] = ()
    gave_up: tuple[str, ...] = ()
    """Replicas that ended by themselves after they had begun to serve."""


@dataclass(frozen=True)
class Finding:
    """A broken promise, and what it is about: a ticket, or a thread."""

    promise: str
    what: str
    ticket: str = ""
    thread: Place | None = None
