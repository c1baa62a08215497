"""Random scenes from a seed: what a model says and what people do, the same on both servers."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.support.twins.client import Client, asking_parts
from tests.support.twins.scenes import Plain, call, say

_LINES = 40
_STEPS = 8
_PAYLOADS = {"request_time_off": {"approved_days": 2}}
_ASK_BY_THEMSELVES = ("request_time_off", "silent_request")


async def improvise(client: Client, seed: int) -> None:
    """Requests of one answer of the model are answered together, sooner or later, in any order. People also chat."""
    lines, people = Random(seed), Random(-seed)
    waiting: list[list[Plain]] = []

    def note(events: list[Plain]) -> None:
        waiting.extend(asked for event in events if (asked := list(asking_parts(event))))

    await client.create()
    note(await client.say(*(_line(lines) for _ in range(_LINES))))
    for number in range(_STEPS):
        if waiting and people.random() < 0.65:
            turn = waiting.pop(people.randrange(len(waiting)))
            people.shuffle(turn)
            note(await client.answer(*((part["id"], _random_answer(part, people)) for part in turn)))
        else:
            note(await client.send({"role": "user", "parts": [{"text": f"Go on, {number}."}]}))
    await client.look()


def _line(dice: Random) -> list[Plain]:
    if dice.random() < 0.3:
        return [say(f"This is {dice.randrange(99)}.")]
    calls = [_call(dice) for _ in range(dice.choice((1, 1, 1, 2, 3)))]
    return [say("Well."), *calls] if dice.random() < 0.2 else calls


def _call(dice: Random) -> Plain:
    return dice.choice(
        (
            call("lookup", topic=f"t{dice.randrange(9)}"),
            call("count", by=dice.randrange(5)),
            call("plain", word="w"),
            call("nothing"),
            call("stop_here"),
            call("deploy", service="s", version=str(dice.randrange(9))),
            call("reimburse", purpose="p", amount=dice.choice((5, 5000))),
            call("request_time_off", days=dice.randrange(1, 9)),
            call("silent_request", text="x"),
        )
    )


def _random_answer(part: Plain, dice: Random) -> dict[str, Any]:
    """An answer. A tool that asks by itself is never denied: in ADK it would run and see the denial."""
    tool = part["args"]["originalFunctionCall"]["name"]
    if tool in _ASK_BY_THEMSELVES:
        return {"confirmed": True, "payload": _PAYLOADS.get(tool)}
    return {"confirmed": dice.random() < 0.7}
