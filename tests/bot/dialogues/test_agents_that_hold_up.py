"""What an agent sends is as long as it likes. Nobody else waits for the bot to read it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from adk_confirm.bot.policy.redaction import MASK
from tests.support.office import LAB, ON_SQLITE, Office

HIDES = '[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL"]\nredact = ["token"]\n'
BEAT = 0.005

pytestmark = ON_SQLITE


@contextmanager
def beating() -> Iterator[list[float]]:
    """For how many seconds at a time the loop was held."""
    held, loop = list[float](), asyncio.get_running_loop()

    ended = False

    def beat(due: float) -> None:
        held.append(loop.time() - due)
        if not ended:
            loop.call_later(BEAT, beat, loop.time() + BEAT)

    beat(loop.time())
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
    assert max(held) < 0.5
