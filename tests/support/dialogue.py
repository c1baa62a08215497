"""Talks to an agent as a client does, so that a test reads as a dialogue.

chat = Chat(runner)
heard = await chat.say("I paid for the trip")
assert heard.lines == [
    'oncall calls reimburse {"amount":1500}',
    "oncall asks reimburse: Approve this?",
    'oncall got reimburse: {"error":"This tool call requires …"}',
]
heard = await chat.approve(heard.request)
assert shown(model.requests[-1]) == [...]
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from adk_confirm import (
    REQUEST_CONFIRMATION,
    Answer,
    Content,
    Event,
    FunctionResponse,
    Part,
    Request,
    Run,
    Runner,
    original_call_from,
    requests_in,
)
from adk_confirm.runtime.calls.call import Call, Word
from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.runtime.jsontypes import Json, JsonObject, canonical
from adk_confirm.runtime.store.database import Tx
from tests.support.waiting import until

_numbers = count(1)


@dataclass
class Heard:
    """What a client got in answer to one message."""

    events: list[Event] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        return [line for event in self.events if not event.partial for line in lines_of(event)]

    @property
    def requests(self) -> list[Request]:
        return [request for event in self.events for request in requests_in(event)]

    @property
    def request(self) -> Request:
        (request,) = self.requests
        return request

    def request_for(self, tool: str, **args: Json) -> Request:
        (request,) = [r for r in self.requests if r.call.name == tool and args.items() <= r.call.arguments.items()]
        return request

    @property
    def texts(self) -> list[str]:
        return [event.text for event in self.events if event.text and not event.partial]

    @property
    def errors(self) -> list[str]:
        return [event.error_code for event in self.events if event.error_code]

    def result(self, tool: str) -> JsonObject:
        """The last response of the tool, as the client sees it."""
        found = [r.response for event in self.events for r in event.responses() if r.name == tool]
        assert found, f"nothing came from {tool}: {self.lines}"
        assert found[-1] is not None
        return found[-1]


class Chat:
    """One session, seen by its client."""

    def __init__(self, runner: Runner, session: str | None = None, user: str = "ann") -> None:
        self.runner = runner
        self.session = session or f"s{next(_numbers)}"
        self.user = user

    async def say(self, message: str | Content, *, streaming: bool = False, state: JsonObject | None = None) -> Heard:
        return await heard(
            self.runner.run(
                user_id=self.user, session_id=self.session, message=message, streaming=streaming, state_delta=state
            )
        )

    async def start(self, message: str | Content) -> Run:
        return await self.runner.start(user_id=self.user, session_id=self.session, message=message, create=True)

    async def answer(self, *answers: Answer) -> Heard:
        return await self.say(answering(*answers))

    async def approve(self, request: Request, payload: Json = None, seen: Preview | None = None) -> Heard:
        """`seen`: the preview of the edited call, as people saw it."""
        if seen is None:
            return await self.answer(Answer(request.id, True, payload))
        message = answering(Answer(request.id, True, payload))
        previews = {request.id: seen}
        return await heard(
            await self.runner.start(user_id=self.user, session_id=self.session, message=message, previews=previews)
        )

    async def preview(self, request: Request, edit: JsonObject) -> Preview:
        arguments = {**request.call.arguments, **edit}
        name, call = {"user_id": self.user, "session_id": self.session}, request.call.id or ""
        return await self.runner.preview(**name, call_id=call, arguments=arguments)

    async def deny(self, request: Request, reason: str | None = None) -> Heard:
        return await self.answer(Answer(request.id, False, reason=reason))

    async def respond(
        self, request_id: str | None, response: JsonObject, *, name: str | None = REQUEST_CONFIRMATION
    ) -> Heard:
        """A function response, as any client may write it."""
        return await self.say(raw_answer(request_id, response, name=name))

    async def resume(self, invocation_id: str) -> Heard:
        return await heard(self.runner.run(user_id=self.user, session_id=self.session, invocation_id=invocation_id))

    async def taken_up(self) -> Heard:
        """What a runner that attends adds to the session by itself, until nothing of the app is due."""
        before = len(await self.history())
        attending = asyncio.create_task(self.runner.attend())
        database = await self.runner.open()

        async def ended() -> bool:
            assert not attending.done()
            return not await database.read(_is_owed, self.runner)

        try:
            await until(ended)
        finally:
            attending.cancel()
            await asyncio.wait([attending])
        return Heard((await self.history())[before:])

    async def calls(self) -> list[Call]:
        return await self.runner.calls(user_id=self.user, session_id=self.session)

    async def settle(self, call_id: str, word: Word, attempt: int | None = None) -> Heard:
        return await heard(
            await self.runner.settle(
                user_id=self.user, session_id=self.session, call_id=call_id, word=word, attempt=attempt
            )
        )

    async def history(self) -> list[Event]:
        session = await self.runner.get_session(user_id=self.user, session_id=self.session)
        assert session is not None
        return session.events

    async def state(self) -> JsonObject:
        session = await self.runner.get_session(user_id=self.user, session_id=self.session)
        assert session is not None
        return session.state


def _is_owed(tx: Tx, runner: Runner) -> bool:
    app, opened_by = runner.app_name, "desk" if runner.is_desk else "anyone"
    unfinished = """
        SELECT 1 FROM runtime_invocations i JOIN runtime_sessions s ON s.key = i.session
        WHERE s.app = :app AND s.opened_by = :opened_by AND i.status = 'active'
    """
    if tx.first(unfinished, app=app, opened_by=opened_by) is not None:
        return True
    owed = "SELECT 1 FROM jobs WHERE kind = :kind AND (due_at <= :now OR lease_until > :now)"
    return tx.first(owed, kind=f"{opened_by}:{app}", now=tx.now()) is not None


def answering(*answers: Answer) -> Content:
    """One message with several answers."""
    return Content(role="user", parts=[part for answer in answers for part in answer.as_content().parts or ()])


def raw_answer(request_id: str | None, response: JsonObject, *, name: str | None = REQUEST_CONFIRMATION) -> Content:
    part = Part(function_response=FunctionResponse(id=request_id, name=name, response=response))
    return Content(role="user", parts=[part])


async def heard(run: AsyncIterable[Event]) -> Heard:
    """Collects all events."""
    return Heard([event async for event in run])


def lines_of(event: Event) -> Iterator[str]:
    """An event as text, for comparison."""
    for part in (event.content.parts if event.content else None) or ():
        if part.text:
            yield f"{event.author} says {part.text}"
        asking = part.function_call or part.function_response
        if asking is None:
            continue
        if asking.name == REQUEST_CONFIRMATION:
            yield from _request_lines(event, part)
        elif part.function_call:
            yield f"{event.author} calls {asking.name} {canonical(part.function_call.arguments)}"
        elif part.function_response:
            yield f"{event.author} got {asking.name}: {canonical(part.function_response.response)}"
    if event.error_code:
        yield f"{event.author} fails {event.error_code}: {event.error_message}"


def _request_lines(event: Event, part: Part) -> Iterator[str]:
    if event.author == "user":
        assert part.function_response is not None
        yield f"user answers {canonical(part.function_response.response)}"
        return
    asking = part.function_call or part.function_response
    assert asking is not None
    (hint,) = [request.hint for request in requests_in(event) if request.id == asking.id]
    yield f"{event.author} asks {original_call_from(asking).name}: {hint}"


def shown(contents: Sequence[Content]) -> list[str]:
    """The model's input as text."""
    lines = []
    for content in contents:
        for part in content.parts or ():
            if part.text:
                lines.append(f"{content.role}: {part.text}")
            if part.function_call:
                lines.append(
                    f"{content.role} calls {part.function_call.name} {canonical(part.function_call.arguments)}"
                )
            if part.function_response:
                response = part.function_response
                lines.append(f"{content.role} got {response.name}: {canonical(response.response)}")
    return lines
