"""Talks through a host as the session worker does: says, asks, answers, looks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import count, groupby
from typing import Literal, NamedTuple

from adk_confirm.bot.confirmation.confirmation import HostRequest, OutcomeKind
from adk_confirm.bot.confirmation.outcome import kind_of, text_of
from adk_confirm.bot.confirmation.states import Delivery
from adk_confirm.bot.hosts.embedded import EmbeddedHost
from adk_confirm.bot.hosts.host import AgentMessage, Host, HostAnswer, RunOutput, UserWords
from adk_confirm.runtime.calls.call import Call, CallState, Word
from adk_confirm.runtime.jsontypes import Json
from adk_confirm.runtime.wire import SessionId

_numbers = count(1)


class Became(NamedTuple):
    """What became of a call, as the bot reads it."""

    became: OutcomeKind | None
    confirmed: bool | None
    text: str | None
    begun_at: float | None


def what_became(call: Call) -> Became:
    (*_, asked) = call.asked
    return Became(kind_of(call), asked.confirmed, text_of(call.result), call.begun)


Decided = Literal["approved", "denied"]


def answer_to(
    request: HostRequest,
    word: Word | Decided = "approved",
    attempt: int = 1,
    *,
    payload: Json = None,
    reason: str | None = None,
    mark: str = "",
    ago: float | None = None,
) -> HostAnswer:
    """As the session worker gives it. `attempt`: the one that was approved, or whose outcome is unknown."""
    number = attempt + 1 if word == "run again" else attempt
    said = Delivery(word=word, payload=payload, reason=reason, arguments=request.arguments, revision=1, attempt=number)
    return HostAnswer(asked=request, delivery=said, mark=mark, ago=ago)


class Visit:
    """One session, seen from the bot."""

    def __init__(self, host: Host, session: SessionId | None = None) -> None:
        self.host = host
        self.session = session or SessionId(host.app, "slack-T1-U0ANN", f"slack-T1-C1-{next(_numbers)}.1")
        self.marks = count(1)

    async def say(self, text: str, *, mark: str | None = None, since: float | None = None) -> list[str]:
        words = UserWords(mark=mark or f"words-{next(self.marks)}", text=text, since=since)
        return await self._texts(self.host.say(self.session, words))

    async def requests(self) -> list[HostRequest]:
        return list((await self.host.look(self.session)).requests)

    async def asks(self, text: str, mark: str | None = None) -> HostRequest:
        """Says this, and returns the one request that follows."""
        await self.say(text, mark=mark)
        (request,) = await self.requests()
        return request

    async def approve(self, *requests: HostRequest, payload: Json = None, ago: float | None = None) -> list[str]:
        given = [self.answer(request, True, payload=payload, ago=ago) for request in requests]
        return await self._texts(self.host.answer(self.session, given))

    async def deny(self, *requests: HostRequest, reason: str | None = None) -> list[str]:
        given = [self.answer(request, False, reason=reason) for request in requests]
        return await self._texts(self.host.answer(self.session, given))

    def answer(
        self,
        request: HostRequest,
        confirmed: bool,
        *,
        payload: Json = None,
        reason: str | None = None,
        ago: float | None = None,
    ) -> HostAnswer:
        word: Decided = "approved" if confirmed else "denied"
        return answer_to(
            request, word, payload=payload, reason=reason, mark=f"k-{request.request_id}:1:{word}", ago=ago
        )

    async def give(self, answers: Sequence[tuple[HostRequest, HostAnswer]]) -> list[str]:
        """Gives answers in as many messages as the session worker would: one for each turn if they belong together."""
        said = list[str]()
        for _, group in groupby(answers, lambda answer: answer[0].turn or answer[0].request_id):
            said += await self._texts(self.host.answer(self.session, [answer for _, answer in group]))
        return said

    async def settle(self, request: HostRequest, word: Word, attempt: int = 1) -> list[str]:
        return await self._texts(self.host.answer(self.session, [answer_to(request, word, attempt)]))

    async def outcome(self, request: HostRequest) -> Became:
        return (await self.outcomes())[request.request_id]

    async def outcomes(self) -> Mapping[str, Became]:
        """What became of the calls, by request. Our own runtime tells it when it happens, and says it again here."""
        if not isinstance(self.host, EmbeddedHost):
            calls = (await self.host.look(self.session)).calls
            return {request: what_became(call) for request, call in calls.items()}
        own = await self.host.runner.calls(user_id=self.session.user_id, session_id=self.session.id)
        told = (call for call in own if call.state not in (CallState.HELD, CallState.READY))
        return {call.request.request_id: what_became(call) for call in told if call.request}

    async def became(self, request: HostRequest) -> OutcomeKind | None:
        return (await self.outcome(request)).became

    async def _texts(self, exchange: AsyncIterator[RunOutput]) -> list[str]:
        return await texts(exchange)


async def texts(exchange: AsyncIterator[RunOutput]) -> list[str]:
    """The complete texts of the messages."""
    return [heard.text async for heard in exchange if isinstance(heard, AgentMessage)]
