"""What an agent sends is as long as it likes. Nobody else waits for the bot to read it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from adk_confirm import Agent, FunctionCall, FunctionTool, ModelRequest, ScriptedModel, ToolContext
from adk_confirm.bot.policy.redaction import MASK
from adk_confirm.runtime.jsontypes import Json, JsonObject
from tests.support.office import LAB, Office

HIDES = '[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL"]\nredact = ["token"]\n'
BEAT, LONGEST = 0.005, 0.1


@contextmanager
def beating() -> Iterator[list[float]]:
    """For how many seconds at a time the loop worked, whatever else the machine did."""
    held, loop = list[float](), asyncio.get_running_loop()
    ended = False

    def beat(since: float) -> None:
        held.append(time.thread_time() - since)
        if not ended:
            loop.call_later(BEAT, beat, time.thread_time())

    beat(time.thread_time())
    try:
        yield held
    finally:
        ended = True


@pytest.mark.office(HIDES, target=LAB)
async def test_what_an_agent_says_in_a_session_of_many_hidden_values(at: Office) -> None:
    """Each of them is a long one, and what is said begins like all of them at every letter."""
    thread = await at.ann.says("@adk-confirm hello", at.deploys)
    await at.sees(thread, "You said: hello")
    with beating() as held:
        for call in range(20):
            tokens = json.dumps([f"{100 * call + number:w>100}" for number in range(25)])
            args = json.dumps({"to": f"Ada {call}", "amount": 1, "token": tokens})
            await at.ann.says(f"@adk-confirm pay {args}", at.deploys, thread=thread)
            await at.rests()
        assert len(at.offers(thread)) == 20
        await at.ann.says(f"@adk-confirm repeat 1 %2f{'w' * 3000}", at.deploys, thread=thread)
        await at.rests()
    assert at.ann.sees(at.deploys).endswith(f"\nadk-confirm: {MASK}"), "what would take too long is hidden as a whole"
    assert max(held) < LONGEST


TOKENS: Json = [f"{number:020}" for number in range(10)]
SPELLED = "\\u0030" * 16_000
"""It might spell any of the tokens, at each of its letters."""

SENT: dict[str, JsonObject] = {
    "a text": {"what": SPELLED, "token": TOKENS},
    "a hint": {"what": "a hint", "token": TOKENS},
    "marks": {"what": f"a{chr(0x301) * 8}" * 20_000},
    "floats": {"what": [number + 0.12345678901 for number in range(40_000)]},
    "names": {"what": {f"name{number}": number for number in range(20_000)}},
}


def send(what: Json, tool_context: ToolContext, token: Json = "") -> str:
    if tool_context.tool_confirmation is None:
        tool_context.request_confirmation(hint=SPELLED if what == "a hint" else "Send it?")
    return "sent"


def _reply(request: ModelRequest) -> FunctionCall | str:
    said = request.contents[-1].text
    return FunctionCall(name="send", args=SENT[said]) if said in SENT else "That is all."


agent = Agent(name="sender", model=ScriptedModel(reply=_reply), tools=[FunctionTool(send)])


@pytest.mark.office(HIDES, target=f"{__name__}:agent")
@pytest.mark.parametrize("what", SENT)
async def test_a_call_that_takes_long_to_read(at: Office, what: str) -> None:
    """Whether or not people can be asked about it."""
    with beating() as held:
        thread = await at.ann.says(f"@adk-confirm {what}", at.deploys)
        if what == "a hint":
            await at.bob.clicks(await at.sees(thread, "Approve"), "Approve")
        else:
            await at.sees(thread, "Send can't be approved")
        await at.sees(thread, "That is all")
        await at.rests()
    assert max(held) < LONGEST
