"""Full approval cycles a second: message → pause → approval → tool → final text. Ours against google-adk, in one run.

    python -m bench.approvals [--cycles 200] [--history 5000] [--store 1000000]

Both sides get the same scripted answers and a store on disk; ours writes with synchronous=FULL. google-adk's figure
is the faster of its two SQLite session services. Quote the ratios: they hold on a noisy machine, seconds do not.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sqlite3
import tempfile
import time
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from pathlib import Path

from runtime import Agent, Answer, Content, Event, FunctionTool, ModelRequest, ModelResponse, Runner, requests_in
from runtime.wire import FunctionCall, Part

USER = "bench"


def reimburse(purpose: str, amount: float) -> dict[str, object]:
    """Pays it."""
    return {"status": "ok", "purpose": purpose, "amount": amount}


class Scripted:
    """Calls the tool when somebody spoke, and speaks when the tool answered."""

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        if any(request.contents[-1].responses()):
            yield ModelResponse(Content.of_text("Done.", "model"))
        else:
            asked = FunctionCall(name="reimburse", args={"purpose": "trip", "amount": 1500})
            yield ModelResponse(Content(role="model", parts=[Part(function_call=asked)]))


def history(events: int) -> list[Event]:
    pairs = (
        (Content.of_text(f"message {n}"), "user") if n % 2 == 0 else (Content.of_text(f"answer {n}", "model"), "a")
        for n in range(events)
    )
    return [
        Event(invocation_id=f"e-{n // 2}", author=author, content=content) for n, (content, author) in enumerate(pairs)
    ]


async def ours(path: Path, events: int, cycles: int) -> float:
    agent = Agent("a", Scripted(), tools=[FunctionTool(reimburse, require_confirmation=True)])
    async with Runner(agent, f"sqlite:///{path}") as runner:
        session = f"s{events}-{time.time_ns()}"
        await runner.create_session(user_id=USER, session_id=session, events=history(events))

        async def cycle() -> None:
            asked = [
                r async for e in runner.run(user_id=USER, session_id=session, message="pay") for r in requests_in(e)
            ]
            answer = Answer(asked[0].id, True).as_content()
            said = [event.text async for event in runner.run(user_id=USER, session_id=session, message=answer)]
            assert said[-1] == "Done.", said

        return await _rate(cycle, cycles)


async def _rate(cycle: Callable[[], Awaitable[None]], cycles: int) -> float:
    await cycle()
    start = time.perf_counter()
    for _ in range(cycles):
        await cycle()
    return cycles / (time.perf_counter() - start)


async def adks(service: str, path: Path, cycles: int) -> float:
    from google.adk.agents import LlmAgent
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.runners import Runner as AdkRunner
    from google.adk.sessions import BaseSessionService, DatabaseSessionService
    from google.adk.sessions.sqlite_session_service import SqliteSessionService
    from google.adk.tools.function_tool import FunctionTool as AdkTool
    from google.genai import types

    class Model(BaseLlm):
        async def generate_content_async(
            self,
            llm_request: LlmRequest,
            stream: bool = False,  # noqa: ARG002  (google-adk's signature)
        ) -> AsyncGenerator[LlmResponse, None]:
            parts = llm_request.contents[-1].parts or []
            if any(part.function_response for part in parts):
                said = types.Part(text="Done.")
            else:
                asked = types.FunctionCall(name="reimburse", args={"purpose": "trip", "amount": 1500})
                said = types.Part(function_call=asked)
            yield LlmResponse(content=types.Content(role="model", parts=[said]))

    sessions: BaseSessionService
    if service == "sqlite":
        sessions = SqliteSessionService(str(path))
    else:
        sessions = DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
    agent = LlmAgent(name="a", model=Model(model="scripted"), tools=[AdkTool(reimburse, require_confirmation=True)])
    runner = AdkRunner(agent=agent, app_name="a", session_service=sessions)
    session = await sessions.create_session(app_name="a", user_id=USER)

    async def say(part: types.Part) -> list[object]:
        message = types.Content(role="user", parts=[part])
        return [event async for event in runner.run_async(user_id=USER, session_id=session.id, new_message=message)]

    async def cycle() -> None:
        events = await say(types.Part(text="pay"))
        asked = [
            call.id
            for event in events
            for call in event.get_function_calls()  # type: ignore[attr-defined]  # google.adk's Event
            if call.name == "adk_request_confirmation"
        ]
        response = types.FunctionResponse(id=asked[0], name="adk_request_confirmation", response={"confirmed": True})
        events = await say(types.Part(function_response=response))
        assert events[-1].content.parts[0].text == "Done.", events[-1]  # type: ignore[attr-defined]

    return await _rate(cycle, cycles)


def fill(path: Path, events: int) -> None:
    """A store with this many events of other sessions."""
    body = history(1)[0].to_json()
    with sqlite3.connect(path) as db:
        for key in range(1, events // 1000 + 1):
            db.execute(
                "insert into runtime_sessions (app, user_id, id, opened_by, state, agent, events, turn, version,"
                " created, updated) values ('a', 'other', ?, 'anyone', '{}', 'a', 1000, 0, 1, 0, 0)",
                [f"filler-{key}"],
            )
            session = db.execute("select max(key) from runtime_sessions").fetchone()[0]
            db.executemany(
                "insert into runtime_events (session, seq, body) values (?, ?, ?)",
                [(session, n, body) for n in range(1000)],
            )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--history", type=int, default=5_000)
    parser.add_argument("--store", type=int, default=1_000_000)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ours.db"
        few = max(20, options.cycles // 5)
        base, long_one, theirs = [], [], []
        for round_ in range(3):  # in turn, so that the machine's mood is shared
            base.append(await ours(path, 0, options.cycles))
            long_one.append(await ours(path, options.history, options.cycles))
            theirs.append(
                max(
                    [
                        await adks("sqlite", Path(folder) / f"a{round_}.db", few),
                        await adks("database", Path(folder) / f"b{round_}.db", few),
                    ]
                )
            )
        await asyncio.to_thread(fill, path, options.store)
        full = [await ours(path, 0, options.cycles) for _ in range(3)]
        again = [await ours(Path(folder) / "empty.db", 0, options.cycles) for _ in range(3)]
    middle = [sorted(rates)[1] for rates in (base, long_one, theirs, full, again)]
    print(f"ours, empty history            {middle[0]:8.1f} cycles/s")
    print(f"google-adk, empty history      {middle[2]:8.1f} cycles/s   ours / google-adk = {middle[0] / middle[2]:.1f}")
    print(
        f"ours, {options.history} events of history {middle[1]:8.1f} cycles/s   / empty = {middle[1] / middle[0]:.2f}"
    )
    print(f"ours, {options.store} events in store {middle[3]:6.1f} cycles/s   / empty = {middle[3] / middle[4]:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
