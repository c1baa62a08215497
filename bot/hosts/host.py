"""The interface to an agent's host. `say` and `answer` stream a run's progress; `look` reads the result afterwards.

1. `say(session, words)` gives a person's message to the session's agent. The words have a mark: giving them
again changes nothing.

2. `answer(session, answers)` answers requests, those of one turn together. Or a single one says what became of a call
whose outcome is unknown.

3. `look(session)` returns what was asked, what became of it, and what the agent said.

4. `capabilities()` says what this host supports, for whoever sets this app up.

A host raises `Unreachable` if nothing can have happened, and `RefusedByHost` if retrying would not help. It raises
`DeliveryUnknown` if something may have happened; then the caller looks. It raises `RequestLost` if the session no
longer has the request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

from adk_confirm.bot.confirmation.confirmation import AskedCall, HostRequest
from adk_confirm.bot.confirmation.states import Delivery
from adk_confirm.runtime.adk.signing import PluginSays
from adk_confirm.runtime.calls.call import Call, Word
from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.run.arrival import FREE, RunControl
from adk_confirm.runtime.store.lease import Lease
from adk_confirm.runtime.wire import USER, Blob, Content, FunctionCall, Part, SessionId


class HostError(ConfirmError):
    """`said`: the host's own words, which may repeat a call. So `str()`, which is logged, is without them."""

    said = ""

    def quoting(self, said: str) -> Self:
        self.said = said
        return self

    @property
    def words(self) -> str:
        """The error as the thread has it, where policies hide values."""
        return f"{str(self).rstrip('.')}: {self.said.rstrip('.')}." if self.said else str(self)


class Unreachable(HostError):
    """The host did not get the message. It is safe to send it again, preferably after this many seconds."""

    def __init__(self, why: str, again_after: float = 5.0) -> None:
        super().__init__(why)
        self.again_after = again_after


class RefusedByHost(Unreachable):
    """The host refused the whole message. The error says why, to people who may have to fix it."""


class Misconfigured(Unreachable):
    """The host does not take what the settings say. The error says what is wrong, and everybody may read it."""


class DeliveryUnknown(HostError):
    """The host may have got the message: read the session before anything else.

    `again_after` is given if the session does not have the message yet, but it may still arrive. It can be sent again
    after this many seconds.
    """

    def __init__(self, why: str, again_after: float | None = None) -> None:
        super().__init__(why)
        self.again_after = again_after


class HostFailed(DeliveryUnknown):
    """The host got the message, and said why it failed."""


class RequestLost(ConfirmError):
    """The host does not know the request any more. `may_have_run`: the approval was sent before the session was
    lost."""

    def __init__(self, why: str, *, may_have_run: bool = False) -> None:
        super().__init__(why)
        self.may_have_run = may_have_run


class SendSeparately(ConfirmError):
    """The host can't take these answers in one message. None was stored; the caller sends each alone."""


class CallAltered(RequestLost):
    """The host now has a different call under this request than the one that was approved. Neither runs, and
    neither does any call whose answer would have been sent with it."""

    def __init__(self, why: str, request: str) -> None:
        super().__init__(why)
        self.request = request


@dataclass(frozen=True, kw_only=True)
class UserWords:
    """A person's message, with its files. `mark` identifies it: the same mark means the same message. `since`: when
    sending it was first tried, or None. `ago`: how many seconds ago a try was noted last, by the store's clock."""

    mark: str
    text: str
    since: float | None = None
    ago: float | None = None
    attachments: tuple[Blob, ...] = ()

    def as_content(self) -> Content:
        words = [Part(text=self.text)] if self.text else []
        return Content(role=USER, parts=[*words, *(Part(inline_data=file) for file in self.attachments)])


@dataclass(frozen=True, kw_only=True)
class HostAnswer:
    """What people decided about a request, or said about its call. `mark` identifies the letter, for hosts that
    remember it. `ago`: how many seconds ago a try to send it was noted last, by the store's clock, or None."""

    asked: HostRequest
    delivery: Delivery
    mark: str = ""
    ago: float | None = None


@dataclass(frozen=True, kw_only=True)
class AgentMessage:
    """A complete message of an agent. `failed` marks an error of the agent or its model."""

    event: str
    author: str
    text: str
    invocation_id: str = ""
    failed: bool = False


@dataclass(frozen=True)
class MessageDelta:
    """A part of a message that the agent is writing. The complete `AgentMessage` follows."""

    text: str


@dataclass(frozen=True)
class TurnBegun:
    """The invocation that a letter began. Whatever the agent asks in it was asked for by the letter's author."""

    invocation_id: str


@dataclass(frozen=True)
class RunBroken:
    """The connection to a run broke. The run may go on unheard: its session will have what it still asks."""


RunOutput = AgentMessage | MessageDelta | TurnBegun | RunBroken
"""What comes from a run while it goes on."""


@dataclass(frozen=True, kw_only=True)
class UnansweredWait:
    """The agent waits for something that can't be answered from this app. `said` explains it to people; `kind` names it
    in logs and metrics. `request`: what people are asked instead, if a policy lets them decide it."""

    kind: str
    said: AgentMessage
    request: HostRequest | None = None


@dataclass(frozen=True, kw_only=True)
class SessionSnapshot:
    """The session as its host has it, oldest first. `taken_in` is called once all of it is stored: until then the host
    says it again."""

    requests: tuple[HostRequest, ...] = ()
    calls: Mapping[str, Call] = field(default_factory=dict)  # by request; empty if the host `tells`
    said: tuple[AgentMessage, ...] = ()
    waits: tuple[UnansweredWait, ...] = ()
    closed: tuple[HostRequest, ...] = ()  # nobody can answer these any more; about some, nobody was ever asked
    origins: Mapping[str, str] = field(default_factory=dict)  # by invocation that an answer began: the one that asked
    taken_in: Callable[[], None] = lambda: None

    @property
    def open_requests(self) -> tuple[HostRequest, ...]:
        """All requests that can still be answered, whether people are asked or not."""
        return (*self.requests, *(one.request for one in self.waits if one.request is not None))


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What the host is, and does not guarantee."""

    name: str
    notes: tuple[str, ...] = ()
    ask_plugin: Callable[[], Awaitable[PluginSays | None]] | None = None  # None if asking could do harm


class Host(Protocol):
    """`tells`: it reports each change of a call when it stores that, so that nobody has to look. Such a host also takes
    all waiting answers at once, or raises `SendSeparately` if one does not fit. `patience`: for how many seconds a lost
    message may still arrive."""

    app: str
    tells: bool
    patience: float

    def say(self, session: SessionId, words: UserWords, control: RunControl = FREE) -> AsyncIterator[RunOutput]: ...
    def answer(
        self, session: SessionId, answers: Sequence[HostAnswer], control: RunControl = FREE
    ) -> AsyncIterator[RunOutput]:
        """Sends answers, and yields what the run says. Once `control.stop` is set, the host ends the run as far as it
        can. The decisions are delivered anyway. Our own runtime works under the caller's lease on the session. Without
        answers, it ends what a process that died left unfinished."""
        ...

    async def preview(self, asked: AskedCall, arguments: JsonObject) -> Preview:
        """What the call would do with these arguments, or why its tool can't say. For requests with
        `previews_edits`."""
        ...

    async def look(
        self, session: SessionId, *, after_exchange: bool = False, held: Lease | None = None
    ) -> SessionSnapshot:
        """What the session says now. `after_exchange`: an exchange has just ended, and the caller has all that it
        yielded. So the host may use what it read then, and leaves that exchange's messages out. `held`: the caller's
        lease, under which our own runtime first finds out what became of calls whose process died. No call begins."""
        ...

    async def capabilities(self) -> Capabilities: ...
    async def close(self) -> None: ...


# ADK servers


@dataclass(frozen=True, kw_only=True)
class ServerInfo:
    """What a server is and supports, found out once. `say_what_became`: passes on what people said about an unknown
    attempt at a call, and yields the run that follows. Only our own API has it, which takes each answer alone.
    `why_not`: sends a call, which google-adk refuses, and returns the reason. Nothing else happens."""

    name: str
    metadata: bool = False  # takes `customMetadata` and stores it with events
    say_what_became: Callable[[SessionId, str, Word, int], AsyncIterator[JsonObject]] | None = None
    schemas: Mapping[str, JsonObject] = field(default_factory=dict)  # its tools' parameters, by name
    notes: tuple[str, ...] = ()
    why_not: Callable[[SessionId, FunctionCall], Awaitable[str]] | None = None
    ends_early: bool = False  # google-adk may end a `SequentialAgent` of its app with the first approval


SENT_WITHIN = 2.0
"""Seconds: a message goes to a server at most this long after the note that it is sent. Other processes count from that
note."""


class Server(Protocol):
    """Reads the sessions of ADK's agents and runs them, over REST or in this process. `patience`: for how many seconds
    after the note that it is sent a message may still arrive.

    Raises `Unreachable` and `DeliveryUnknown`.
    """

    app: str
    patience: float

    async def about(self) -> ServerInfo: ...
    async def events(self, session: SessionId) -> list[JsonObject] | None:
        """The session's events. None if there is no such session."""
        ...

    async def create(self, session: SessionId) -> None: ...
    def run(self, session: SessionId, message: Content, extra: JsonObject) -> AsyncIterator[JsonObject]:
        """The events of a run as they come, to its end. `extra`: more keys for the request."""
        ...

    async def close(self) -> None: ...
