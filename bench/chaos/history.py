"""What came of a run, as data: what people said and clicked, what the tools did, what Slack and the ledger show.

The checks see nothing else, so that a forged history can be held against each of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from runtime.jsontypes import JsonObject

Place = tuple[str, str]
"""A channel and a thread."""
Kind = Literal["card", "pointer", "lines", "said", "other"]


@dataclass(frozen=True)
class Asked:
    """A call that somebody asked the agent for."""

    ticket: str
    tool: str
    amount: int
    asker: str
    thread: Place


@dataclass(frozen=True)
class Said:
    """Words to the agent. `heard`: Slack got an acknowledgement. `answer` is what the agent has to say to them."""

    at: float
    who: str
    thread: Place
    words: str
    heard: bool
    answer: str = ""


@dataclass(frozen=True)
class Clicked:
    """One gesture: a button, or a form that was sent. `same` names the vote that it is: sent twice, it is one vote.

    `amount` is what stood on the card or in the form. `answer` is what a form showed in the end.
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
    """A message of the app as it stands at the end. `about`: whose card, which session's lines, which event's words."""

    place: Place
    ts: str
    kind: Kind
    about: str
    text: str
    buttons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Whisper:
    """What one person alone was shown, in a window or at a place in a channel."""

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
class Renewed:
    """New work once all was well again: seconds until its card, and from the click until its tool began."""

    ticket: str
    card: float | None
    began: float | None


@dataclass(frozen=True)
class Happened:
    """Something that broke, and when."""

    at: float
    what: str
    seconds: float


@dataclass(frozen=True)
class History:
    asked: tuple[Asked, ...] = ()
    said: tuple[Said, ...] = ()
    clicked: tuple[Clicked, ...] = ()
    effects: tuple[Effect, ...] = ()
    messages: tuple[Message, ...] = ()
    whispers: tuple[Whisper, ...] = ()
    ledger: tuple[Entry, ...] = ()
    names: dict[str, str] = field(default_factory=dict)
    """People by their ids."""
    tickets: dict[str, str] = field(default_factory=dict)
    """Tickets by the confirmation that asks for them."""
    verified: tuple[int, str] = (0, "")
    """What `audit verify` said, and its exit code."""
    owed: tuple[str, ...] = ()
    """Rows that were still owed something when there was nothing left to wait for."""
    renewed: tuple[Renewed, ...] = ()
    happened: tuple[Happened, ...] = ()
    homes: dict[str, str] = field(default_factory=dict)
    """What stands on the Home tabs of those who opened theirs."""
    gave_up: tuple[str, ...] = ()
    """Replicas that ended by themselves although they had begun to serve."""


@dataclass(frozen=True)
class Finding:
    """A promise that was broken, and what the story is about: a ticket, or a thread."""

    promise: str
    what: str
    ticket: str = ""
    thread: Place | None = None
