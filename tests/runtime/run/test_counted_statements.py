"""How many transactions and statements a cycle needs."""

from __future__ import annotations

import pytest

from adk_confirm import Agent, Answer, FunctionTool, Runner, ScriptedModel, requests_in
from adk_confirm.runtime.models.scripted import call
from tests.support.counting import compare, counted_sql


def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


@pytest.mark.parametrize("history", [0, 100])
async def test_a_cycle_has_as_many_transactions_as_its_promises_need(either_store: str, app: str, history: int) -> None:
    """Message, pause, approval, tool, final text: as many with a long history as without."""
    cycles = 2 + history // 5
    script = [line for _ in range(cycles) for line in (call("pay", amount=3), "Done.")]
    agent = Agent("clerk", ScriptedModel(*script), tools=[FunctionTool(pay, require_confirmation=True)])

    async def cycle() -> None:
        asked = [r async for e in runner.run(user_id="u", session_id="s", message="Go") for r in requests_in(e)]
        answer = Answer(asked[0].id, True)
        said = [event.text async for event in runner.run(user_id="u", session_id="s", message=answer)]
        assert said[-1] == "Done."

    with counted_sql() as counted:
        async with Runner(agent, either_store, app_name=app) as runner:
            for _ in range(cycles - 1):
                await cycle()
            counted.clear()
            await cycle()
            cost = dict(counted)
    compare(f"a cycle on {either_store.partition(':')[0]}", cost)
