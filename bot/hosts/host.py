"""What the app needs of an agent's host. `say` and `answer` stream for speed; `look` is the truth, read after each run.

1. `say(session, words)` gives a person's message to the session's agent. The same mark again changes nothing.
2. `answer(session, answers)` answers requests; those of one turn may go together. `settle` says what became of a
   call whose outcome is unknown.
3. `look(session)` returns what was asked, what became of it, and what the agent said.
4. `capabilities()` says what this host can do. It is found out once.

A host raises `Unreachable` if nothing can have happened, and `RefusedByHost` if trying again does not help either. It
raises `DeliveryUnknown` if something may have happened: the caller then looks. It raises `RequestLost` if the
request is not in the session any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from bot.confirmation.effects import Settlement
from bot.confirmation.model import Ask, OutcomeKind, SessionKey
from bot.confirmation.sign_in import Credential
from runtime.calls.call import Approved
from runtime.errors import ConfirmError
from runtime.jsontypes import Json, JsonObject
from runtime.wire import USER, Blob, Content, Part


class Unreachable(ConfirmError):
    """The host did not get it. It is safe to send it again, preferably not before so many seconds."""

    def __init__(self, why: str, again_after: float = 5.0) -> None:
        super().__init__(why)
        self.again_after = again_after


class RefusedByHost(Unreachable):
    """The host is there, and took none of this. The message says why to people, some of whom may have to fix it."""


class DeliveryUnknown(ConfirmError):
    """The host may have got it: read the session before anything else.

    `again_after`: it is not there now, but may still arrive. In so many seconds it can be sent again.
    """

    def __init__(self, why: str, again_after: float | None = None) -> None:
        super().__init__(why)
        self.again_after = again_after


class HostFailed(DeliveryUnknown):
    """The host has it, and said itself why it failed."""


class RequestLost(ConfirmError):
    """The host does not know the request any more. `may_have_run`: it was sent before the session was lost."""

    def __init__(self, why: str, *, may_have_run: bool = False) -> None:
        super().__init__(why)
        self.may_have_run = may_have_run


class SendSeparately(ConfirmError):
    """One of several answers does not fit. None was stored: the caller sends each in a message of its own."""


class CallAltered(RequestLost):
    """The host has another call now than the one that was approved. It does not run."""


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """A file that came with a person's message."""

    name: str
    mime_type: str
    data: bytes


@dataclass(frozen=True, kw_only=True)
class UserWords:
    """What a person said. `mark` names the message: the same mark again is the same message. `since`: when it was first
    tried to send it, if it was."""

    mark: str
    text: str
    since: float | None = None
    attachments: tuple[Attachment, ...] = ()

    def as_content(self) -> Content:
        files = (Blob(mime_type=a.mime_type, data=a.data, display_name=a.name) for a in self.attachments)
        words = [Part(text=self.text)] if self.text else []
        return Content(role=USER, parts=[*words, *(Part(inline_data=file) for file in files)])


@dataclass(frozen=True, kw_only=True)
class HostAnswer:
    """The answer to one request, for the host. `mark` is the letter's, for hosts that keep notes. `since`: when it was
    first tried to send it, if it was."""

    request_id: str
    call_id: str
    invocation_id: str
    confirmed: bool
    payload: Json = None
    reason: str | None = None
    mark: str = ""
    since: float | None = None
    tool: str = ""
    arguments: JsonObject | None = None  # of the call as it was asked; for an approval, the tool's
    ask: Ask = Ask.CONFIRMATION
    approved: Approved | None = None  # the call to run, edits included: a host runs no other
    credential: Credential | None = None  # the credential that somebody gave


@dataclass(frozen=True, kw_only=True)
class HostRequest:
    """A request in a session."""

    request_id: str
    call_id: str
    tool: str
    arguments: JsonObject
    agent: str
    invocation_id: str
    hint: str = ""
    wants_payload: bool = False
    payload: Json = None
    payload_schema: JsonObject | None = None
    tool_schema: JsonObject | None = None
    can_edit: bool = True  # whether an edit of the arguments reaches the tool
    ask: Ask = Ask.CONFIRMATION
    ends_turn: bool = False  # agents that should follow will not run, whatever is decided
    siblings: str = ""  # the same for all that one agent asks in one turn, in one branch


@dataclass(frozen=True, kw_only=True)
class HostOutcome:
    """What happened to the call of a request. `confirmed`: how the request was answered, so far as is known."""

    request_id: str
    became: OutcomeKind | None
    """One of those that hosts report. None while nobody has answered."""
    confirmed: bool | None = None
    result: Json = None
    text: str | None = None  # result, error or refusal, as text
    begun_at: float | None = None
    altered: bool = False  # refused, because it was not the call that was approved
    asked_anew: bool = False  # held, and a later request has replaced it: an answer would go to that one
    left_behind: bool = False  # nobody answered, and the agent went on: no answer makes the call run any more


@dataclass(frozen=True, kw_only=True)
class AgentMessage:
    """Something that an agent said, whole. `failed` marks an error of the agent or its model."""

    event: str
    author: str
    text: str
    invocation_id: str = ""
    failed: bool = False


@dataclass(frozen=True, kw_only=True)
class MessageDelta:
    """A part of what an agent is saying now. The whole follows as `AgentMessage`."""

    author: str
    text: str
    invocation_id: str = ""


class TaskState(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"  # for people
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Task:
    """A tool call of the run that is under way, as far as it got. `result` is one short line. Like a `MessageDelta` it
    is for showing only: what became of a call is in `look`."""

    call_id: str
    tool: str
    state: TaskState
    result: str = ""
    invocation_id: str = ""

    def then(self, later: Task) -> Task:
        """What is known after a later message. A call that waits does not end in the run that asked."""
        if self.state is TaskState.WAITING and later.state in (TaskState.DONE, TaskState.FAILED):
            return self
        return replace(later, tool=later.tool or self.tool)


Heard = AgentMessage | MessageDelta | Task
"""What comes while a run goes on."""


@dataclass(frozen=True, kw_only=True)
class UnansweredWait:
    """The agent waits for something that this app can't answer. `said` tells people; `kind` names it in logs and
    metrics. `request`: what people are asked instead, if a policy says that they decide it."""

    kind: str
    said: AgentMessage
    request: HostRequest | None = None


@dataclass(frozen=True, kw_only=True)
class SessionSnapshot:
    """The session as its host has it, oldest first."""

    requests: tuple[HostRequest, ...] = ()
    outcomes: tuple[HostOutcome, ...] = ()
    said: tuple[AgentMessage, ...] = ()
    waits: tuple[UnansweredWait, ...] = ()

    @property
    def open_requests(self) -> tuple[HostRequest, ...]:
        """All that can still be answered, whether people are asked or not."""
        return (*self.requests, *(one.request for one in self.waits if one.request is not None))

    def is_open(self, request_id: str) -> bool:
        return any(request.request_id == request_id for request in self.open_requests)


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What the host can promise. `siblings_together`: answers of one turn must be held back and sent in one message.
    `several_answers`: those that wait may go in one message; the host raises `SendSeparately` if one does not fit.
    `patience`: what was sent and got lost may still arrive for so many seconds."""

    name: str
    exactly_once: bool
    edits: bool
    siblings_together: bool = False
    several_answers: bool = False
    patience: float = 0.0
    notes: tuple[str, ...] = field(default=())


class Host(Protocol):
    @property
    def app(self) -> str: ...
    def say(
        self, session: SessionKey, words: UserWords, *, stop: asyncio.Event | None = None
    ) -> AsyncIterator[Heard]: ...
    def answer(
        self, session: SessionKey, answers: Sequence[HostAnswer], *, stop: asyncio.Event | None = None
    ) -> AsyncIterator[Heard]:
        """Once `stop` is set the run ends, so far as the host can end it. A decision is delivered all the same."""
        ...

    def settle(
        self,
        session: SessionKey,
        request_id: str,
        call_id: str,
        word: Settlement,
        attempt: int,
        again: HostAnswer | None = None,
        stop: asyncio.Event | None = None,
    ) -> AsyncIterator[Heard]:
        """`again`: the approval for the next attempt, if people answered "run again"."""
        ...

    async def look(self, session: SessionKey) -> SessionSnapshot: ...
    async def capabilities(self) -> Capabilities: ...
    async def close(self) -> None: ...
