"""Works on a session under its lease, until the turn waits or ends.

It writes to the store at three points only: before a tool runs (the intent), before the model is asked (the results),
and at the end, when the lease is released as well. If the sender of the message has the lease, what is due at the end
is written by the sender's own next transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypeVar

from adk_confirm.runtime.agent import Agent
from adk_confirm.runtime.calls.call import Begin, Call, CallState, GateKind, Hold, Refuse, Retry, step
from adk_confirm.runtime.calls.model_history import ModelHistory
from adk_confirm.runtime.calls.turn import AddEvents, Recover, RunTools, events_for, merge_actions, next_step
from adk_confirm.runtime.context import ReadonlyContext
from adk_confirm.runtime.errors import Busy, StoreError, was_cancelled
from adk_confirm.runtime.fence import Failed, fenced
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.models.protocol import Model, ModelFailure, ModelRequest, ModelResponse
from adk_confirm.runtime.run.ask_model import ask_model, content_with_ids, describe_failure
from adk_confirm.runtime.run.execute import (
    CallEnvironment,
    admit,
    ask_again,
    asking_why,
    call_from_model,
    check_runnable,
    execute,
    hear_denial,
    recover,
    wants_denial,
    with_preview,
    without_why,
)
from adk_confirm.runtime.run.journal import Journal
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.lease import Keeper, Lease
from adk_confirm.runtime.store.sessions import known_calls
from adk_confirm.runtime.store.stored_session import Invocation, InvocationStatus, split_temporary
from adk_confirm.runtime.telemetry import tracing
from adk_confirm.runtime.tool import Tool
from adk_confirm.runtime.wire import Content, Dialect, Event, EventActions, NodeInfo, new_event_id

T = TypeVar("T")

STOPPED = "Somebody stopped the agent before this tool ran. Nothing ran."


async def unless_stopped(work: Coroutine[Any, Any, T], stop: asyncio.Event | None) -> T | None:
    """The result of the work. None if the stop came first; then the work is cancelled."""
    if stop is None:
        return await work
    if stop.is_set():
        work.close()
        return None
    failures: list[BaseException] = []

    async def worked() -> T | None:
        try:
            return await work
        except BaseException as error:  # noqa: BLE001  (raised below: in a task of its own it could end the loop)
            failures.append(error)
            return None

    working, stopped = asyncio.create_task(worked()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            return None
        result = await working
        if failures:
            raise failures[0]
        return result
    finally:
        stopped.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait({working})


_AT_ONCE = 16


async def at_once(do: Callable[..., Coroutine[Any, Any, T]], *each: Sequence[Any]) -> list[T]:
    """What `do` returns for each, in their order. Some run at the same time: one preview may take ten seconds."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(*given: Any) -> T:
        async with room:
            return await do(*given)

    return await asyncio.gather(*map(one, *each))


class Paths:
    """The path of each agent's latest run, such as `root@1/helper@2`, during one `TurnLoop.drive`, which begins with
    `agent`."""

    def __init__(self, agent: Agent) -> None:
        self._latest: dict[str, str] = {}
        # The root runs the agent below it that is asked; agents in between only appear in the path.
        self._runs = Counter({self._place(agent), self._place(agent.root)})

    def of(self, agent: Agent) -> str:
        """The path of the agent's latest run."""
        return self._latest.get(agent.name) or f"{self._place(agent)}@1"

    def hand_over(self, agent: Agent) -> None:
        place = self._place(agent)
        self._runs[place] += 1
        self._latest[agent.name] = f"{place}@{self._runs[place]}"

    def _place(self, agent: Agent) -> str:
        return f"{self.of(agent.parent)}/{agent.name}" if agent.parent else agent.name


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AppContext:
    """What stays the same for all work on an app."""

    database: Database
    root: Agent
    resolve: Callable[[str | Model], Model]
    clock: Callable[[], float]
    lease_term: float
    keeper: Keeper  # renews the leases of its sessions
    dialect: Dialect = "call"
    patience: float = 60.0  # seconds to wait for each piece of a model's answer, and for a gate
    most_model_calls: int = 500  # in one run
    asks_why: Callable[[str], bool] = bool  # whether the model is asked why it calls this tool


class TurnLoop:
    """Drives a session's invocations."""

    def __init__(
        self,
        app: AppContext,
        journal: Journal,
        lease: Lease,
        *,
        streaming: bool = False,
        metadata: JsonObject | None = None,
        stop: asyncio.Event | None = None,
    ) -> None:
        self._stop = stop
        self._app, self._journal, self._lease = app, journal, lease
        self._streaming = streaming
        self._metadata = metadata  # the sender's metadata, for every event
        self._tools: dict[str, Mapping[str, Tool]] = {}
        self._paths = Paths(app.root)
        self._retried: set[str] = set()  # calls that a crash interrupted: a preview can't show the rest of them
        self._enough = False  # a tool said that its result needs no comment from the model

    async def drive(self, invocation: Invocation, calls: Sequence[Call], *, ask: bool) -> None:
        """Works until the turn waits for people or the invocation ends. Without `ask` the model is not asked any more:
        its answer to a newer message will cover these calls too."""
        if self._app.root.find(invocation.agent) is None:
            # If the agent no longer exists, the root takes over its conversation.
            invocation = replace(invocation, agent=self._app.root.name)
        self._paths = Paths(self._agent(invocation.agent))
        most = self._app.most_model_calls
        for asked in count():
            self._enough = False
            invocation, calls = await self._settle_turn(invocation, calls)
            if any(not call.settled for call in calls):
                self._journal.put(replace(invocation, status=InvocationStatus.WAITING))
                return
            if asked == most:
                self._fail(invocation, "TOO_MANY_MODEL_CALLS", f"The model was asked {most} times in one run.")
                break
            said = await self._ask_model(invocation) if ask and not self._enough else None
            if said is None or not any(said.calls()):
                break
            invocation, calls = await self._admit(invocation, said)
        self._journal.put(replace(invocation, status=InvocationStatus.ENDED))

    async def find_lost(self, calls: Sequence[Call]) -> None:
        """Notes what became of calls that ran when their process died. Those that may run again stay as they are."""
        for call in calls:
            if call.state is CallState.RUNNING:
                event = await recover(call, await self._tools_for(call) or {}, self._environment(), self._app.patience)
                if not isinstance(event, Retry):
                    self._note_state({}, step(call, event, self._app.clock()))

    # The turn's calls

    async def _settle_turn(self, invocation: Invocation, calls: Sequence[Call]) -> tuple[Invocation, list[Call]]:
        """Runs all calls that can run, and adds the events about them."""
        turn = {call.id: call for call in calls}
        while True:
            match next_step(list(turn.values())):
                case Recover(lost):
                    for call in lost:
                        tools = await self._tools_for(call) or {}
                        event = await recover(call, tools, self._environment(), self._app.patience)
                        if isinstance(event, Retry):
                            self._retried.add(call.id)
                        self._note_state(turn, step(call, event, self._app.clock()))
                case RunTools(ready):
                    await self._run(turn, self._drop_stopped(turn, ready))
                case AddEvents(untold):
                    invocation = self._add_events(invocation, turn, await self._hear_denials(untold))
                case "wait" | "ask the model":
                    return invocation, list(turn.values())

    def _drop_stopped(self, turn: dict[str, Call], ready: Sequence[Call]) -> list[Call]:
        """After a stop, only approved calls still begin."""
        if self._stop is None or not self._stop.is_set():
            return list(ready)
        for call in ready:
            if call.gate is GateKind.NONE:
                self._note_state(turn, step(call, Refuse(STOPPED), self._app.clock()))
        return [call for call in ready if call.gate is not GateKind.NONE]

    async def _hear_denials(self, untold: Sequence[Call]) -> list[Call]:
        """Calls the functions of denied calls that want to respond, before the model learns of the denials."""
        heard = list[Call]()
        for call in untold:
            tool = (await self._tools_for(call) or {}).get(call.tool) if call.gate is GateKind.DYNAMIC else None
            asks = tool is not None and wants_denial(call, tool)
            check = check_runnable(call, {call.tool: tool}, self._app.patience) if tool is not None and asks else None
            if tool is not None and check is not None and not isinstance(await check, Refuse):
                await self._lease.sure()
                heard.append(await hear_denial(call, tool, self._environment()))
            else:
                heard.append(call)
        return heard

    def _note_state(self, turn: dict[str, Call], call: Call, *, told: bool = False) -> None:
        """Notes a call's new state, to be written with the next flush."""
        turn[call.id] = replace(call, told=told)
        self._journal.put(turn[call.id])

    async def _run(self, turn: dict[str, Call], ready: Sequence[Call]) -> None:
        """Runs these calls together. The intent is stored before the first begins, each result once it is there."""
        if any(call.request is not None and call.request.preview is not None for call in ready):
            await self._journal.flush()  # stores the approvals first: the preview that is made anew may differ
        checked = [await check_runnable(call, await self._tools_for(call), self._app.patience) for call in ready]
        tools = {call.id: tool for call, tool in zip(ready, checked, strict=True) if not isinstance(tool, Refuse)}

        async def before_start(call: Call, tool: Tool | Refuse) -> Refuse | Hold | Begin:
            if isinstance(tool, Refuse):
                return tool
            anew = await ask_again(call, tool, self._environment()) if call.id not in self._retried else None
            return anew or Begin()

        for call, event in zip(ready, await at_once(before_start, ready, checked), strict=True):
            self._note_state(turn, step(call, event, self._app.clock()))
        if not tools:
            return
        began = self._lease.clocks()
        # Those that `on_change` had stored in another state: one that must not begin is refused; one that would have
        # asked again, but may begin, is running.
        otherwise = await self._journal.flush()
        turn.update(otherwise)
        for call in otherwise.values():
            if call.state is not CallState.RUNNING:
                why, session = call.reason or call.state, self._journal.stored.name.id
                log.error("call %s (%s) of session %s does not begin: %s", call.id, call.tool, session, why)
        running = [(turn[id_], tool) for id_, tool in tools.items() if turn[id_].state is CallState.RUNNING]

        def may_begin() -> bool:
            return self._lease.is_fresh() or began.are_within(self._lease.term / 3, self._lease.clocks())

        environment = replace(self._environment(), may_begin=may_begin)
        left = len(running)

        async def run(call: Call, tool: Tool) -> None:
            """If this process was frozen, or its machine paused, it may have been taken for dead, and its calls may
            have been decided elsewhere."""
            nonlocal left, began
            while (ended := await execute(call, tool, environment)) is None:
                asked = self._lease.clocks()
                await self._lease.sure()
                began = asked
            event, actions = ended
            self._note_state(turn, replace(step(call, event, self._app.clock()), actions=actions))
            left -= 1
            if left:
                await self._journal.flush()

        # A failed write must not cancel another tool that is running.
        ended = await asyncio.gather(*(run(call, tool) for call, tool in running), return_exceptions=True)
        for result in ended:
            if isinstance(result, BaseException):
                raise result

    def _add_events(self, invocation: Invocation, turn: dict[str, Call], untold: Sequence[Call]) -> Invocation:
        actions = merge_actions([EventActions.model_validate(call.actions) for call in untold if call.actions])
        kept, temporary = split_temporary(actions.state_delta)
        self._journal.temporary.update(temporary)
        actions = actions.model_copy(update={"state_delta": kept})
        for event in events_for(untold, self._event(invocation, untold[0].agent), actions, self._app.dialect):
            self._add(event)
            self._enough = self._enough or bool(event.actions.skip_summarization)
        for call in untold:
            self._note_state(turn, replace(call, actions=None), told=True)
        target = self._app.root.find(actions.transfer_to_agent or "")
        if target is None:
            return invocation
        self._paths.hand_over(target)
        invocation = replace(invocation, agent=target.name)
        self._journal.put(replace(invocation, status=InvocationStatus.ACTIVE))
        return invocation

    async def _admit(self, invocation: Invocation, said: Event) -> tuple[Invocation, list[Call]]:
        """Turns the model's calls into a turn: each passes its gate, and is written before any of them runs."""
        turn = self._journal.stored.turn + 1
        invocation = replace(invocation, turn=turn)
        tools, environment = await self._tools_of(invocation.agent), self._environment()
        calls: dict[str, Call] = {}
        for place, asked in enumerate(said.calls()):
            call = call_from_model(asked, agent=invocation.agent, invocation_id=invocation.id, turn=turn, place=place)
            if call.tool in tools and self._app.asks_why(call.tool):
                call = without_why(call, tools[call.tool])
            calls[call.id] = await admit(call, tools, environment, self._app.clock(), self._app.patience)

        async def whole(call: Call) -> Call:
            held = call.state is CallState.HELD
            return await with_preview(call, tools[call.tool], environment) if held else call

        for call in await at_once(whole, [*calls.values()]):
            self._note_state(calls, call)
        self._journal.begin_turn(turn)
        self._journal.put(replace(invocation, status=InvocationStatus.ACTIVE))
        return invocation, list(calls.values())

    # The model

    async def _ask_model(self, invocation: Invocation) -> Event | None:
        """The model's answer as an event. None if the run was stopped, or if the model failed: the failure is then
        added as an event here."""
        await self._journal.flush_news()
        agent = self._agent(invocation.agent)
        event_id = new_event_id()  # one id for the answer and its pieces
        view = await self._journal.view(agent.name)  # not in the `try`: a store that is away is no failure of the model
        try:
            whole = await unless_stopped(self._generate(agent, invocation, view, event_id), self._stop)
            if whole is None:
                return None
            event = self._answer(invocation, event_id, whole, await self._taken_ids(whole))
            self._add(event)
        except BaseException as error:
            if was_cancelled():
                raise
            # A model may raise anything, like a tool. The error becomes an event, and the session goes on.
            error = error.error if isinstance(error, Failed) else error
            self._fail(
                invocation,
                *describe_failure(error, agent.name),
                error.said if isinstance(error, ModelFailure) else None,
            )
            return None
        return event

    async def _taken_ids(self, whole: ModelResponse) -> Collection[str]:
        """Of the ids that the model gave its calls, those that are taken already; all, if the store can't say."""
        given = [call.id for call in whole.content.calls() if call.id] if whole.content else []
        try:
            return await self._app.database.read(known_calls, self._journal.stored.key, given) if given else ()
        except (StoreError, Busy):
            return given

    async def _generate(self, agent: Agent, invocation: Invocation, view: ModelHistory, event_id: str) -> ModelResponse:
        model, question = self._app.resolve(agent.model), await self._model_request(agent, invocation, view)
        with tracing.span("chat", gen_ai__operation__name="chat", gen_ai__request__model=question.model):
            return await ask_model(
                model,
                question,
                self._app.patience,
                lambda piece: self._journal.emit(self._answer(invocation, event_id, piece)),
            )

    async def _model_request(self, agent: Agent, invocation: Invocation, view: ModelHistory) -> ModelRequest:
        name = self._journal.stored.name
        context = ReadonlyContext(
            agent_name=agent.name,
            invocation_id=invocation.id,
            user_id=name.user_id,
            session_id=name.id,
            state=self._journal.state,
        )
        tools = await fenced(self._tools_of(agent.name), self._app.patience)
        instruction = await fenced(agent.instruct(context), self._app.patience)
        return ModelRequest(
            model=agent.model if isinstance(agent.model, str) else agent.name,
            contents=view.contents,
            instruction=instruction,
            tools=[
                asking_why(tool.declaration) if self._app.asks_why(tool.name) else tool.declaration
                for tool in tools.values()
            ],
            config=agent.generate_content_config,
            streaming=self._streaming,
        )

    def _answer(
        self, invocation: Invocation, event_id: str, response: ModelResponse, taken: Collection[str] = ()
    ) -> Event:
        content = content_with_ids(response, taken)
        return self._event(
            invocation,
            invocation.agent,
            id=event_id,
            content=content,
            partial=True if response.partial else None,
            finish_reason=response.finish_reason,
            usage_metadata=response.usage,
            model_version=response.model_version,
            long_running_tool_ids=[] if content is not None and any(content.calls()) else None,
        )

    def _fail(self, invocation: Invocation, code: str, message: str, said: Content | None = None) -> None:
        """Adds the failure as an event. The session goes on with the next message."""
        self._add(self._event(invocation, invocation.agent, content=said, error_code=code, error_message=message))

    # Helpers

    def _add(self, event: Event) -> None:
        author = self._app.root.find(event.author)
        self._journal.add(event, speaker=author.name if author and author.keeps_the_conversation else None)

    def _event(self, invocation: Invocation, author: str, **more: Any) -> Event:
        """A new event of this invocation. `more`: its other fields."""
        path = self._paths.of(self._agent(author))
        return Event(
            invocation_id=invocation.id,
            author=author,
            node_info=NodeInfo(path=path),
            custom_metadata=self._metadata,
            timestamp=self._app.clock(),
            **more,
        )

    def _agent(self, name: str) -> Agent:
        return self._app.root.find(name) or self._app.root

    async def _tools_of(self, agent: str) -> Mapping[str, Tool]:
        if agent not in self._tools:
            self._tools[agent] = await self._agent(agent).resolve_tools()
        return self._tools[agent]

    async def _tools_for(self, call: Call) -> Mapping[str, Tool] | None:
        """The tools of the call's owner by name. Empty if the agent is gone, None if it can't say now which tools it
        has."""
        if self._app.root.find(call.agent) is None:
            return {}
        try:
            return await fenced(self._tools_of(call.agent), self._app.patience)
        except Failed as failed:
            why = "the tools of %s cannot be listed, so its call %s does not run"
            log.error(why, call.agent, call.id, exc_info=failed.error)
            return None

    def _environment(self) -> CallEnvironment:
        name = self._journal.stored.name
        return CallEnvironment(name.app, name.user_id, name.id, self._journal.state, self._app.dialect)
