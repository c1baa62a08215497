"""The agents and their tools, described for both runtimes. Imports neither of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from pydantic import BaseModel

Plain = dict[str, Any]
"""A part or a content, as ADK writes it in JSON."""


# What a model says


def say(text: str) -> Plain:
    return {"text": text}


def call(name: str, /, call_id: str | None = None, **args: object) -> Plain:
    made: Plain = {"name": name, "args": args}
    return {"functionCall": made if call_id is None else {"id": call_id, **made}}


def blocked(code: str, message: str) -> Plain:
    """A line without an answer, as when a model's safety filter steps in."""
    return {"blocked": {"error_code": code, "error_message": message}}


ECHO: Plain = {"echo": True}
"""A line in which the model repeats its input."""

WAITING: Plain = {"text": "(It waits.)"}
"""What ADK's model says while a dynamic gate waits. Ours is not asked then, because the turn waits."""


def script(*lines: Plain | Sequence[Plain]) -> str:
    """A user's message that contains the model's answers, line by line, until the user says something new."""
    return json.dumps({"script": str(uuid4()), "lines": [[line] if isinstance(line, dict) else line for line in lines]})


class Prompter:
    """Gives a model its next line, depending on its input."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def line(self, contents: Sequence[Plain]) -> list[Plain]:
        if any(answer in PENDING for answer in _last_responses(contents)):
            return [WAITING]
        scripts = [json.loads(text) for text in _texts(contents) if text.startswith('{"script"')]
        if not scripts:
            return [say("There is no script.")]
        current = scripts[-1]
        number = self._given.get(current["script"], 0)
        self._given[current["script"]] = number + 1
        if number >= len(current["lines"]):
            return [say(f"The script has ended; this would be line {number + 1}.")]
        line: list[Plain] = current["lines"][number]
        return [say(_input_as_text(contents))] if line == [ECHO] else line


def _last_responses(contents: Sequence[Plain]) -> list[Plain]:
    parts = contents[-1].get("parts") or () if contents else ()
    return [part["functionResponse"].get("response") for part in parts if "functionResponse" in part]


def _texts(contents: Sequence[Plain]) -> list[str]:
    return [part["text"] for content in contents for part in content.get("parts") or () if part.get("text")]


def _input_as_text(contents: Sequence[Plain]) -> str:
    """What the model saw, without scripts and ids."""
    seen = []
    for content in contents:
        for part in content.get("parts") or ():
            if text := part.get("text"):
                seen.append([content.get("role"), "script" if text.startswith('{"script"') else text])
            for kind, inside in (("functionCall", "args"), ("functionResponse", "response")):
                if asked := part.get(kind):
                    seen.append([content.get("role"), kind, asked.get("name"), asked.get(inside)])
    return json.dumps(seen, sort_keys=True)


# The tools


class Context(Protocol):
    """The part of a tool's context that both runtimes have."""

    tool_confirmation: Any
    state: Any
    actions: Any

    def request_confirmation(self, *, hint: str, payload: object) -> None: ...


def lookup(topic: str) -> dict[str, object]:
    """Looks something up."""
    return {"topic": topic, "found": True}


def count(by: int, tool_context: Context) -> dict[str, object]:
    """Counts in the session's state."""
    tool_context.state["count"] = tool_context.state.get("count", 0) + by
    tool_context.state["temp:last"] = by
    return {"count": tool_context.state["count"]}


def plain(word: str) -> str:
    """Gives back text instead of a map."""
    return word.upper()


class Parcel(BaseModel):
    """What a tool may take and give back."""

    to: str
    weight: float = 1


def pack(parcel: Parcel, copies: int = 2) -> Parcel:
    """Packs a parcel."""
    return Parcel(to=parcel.to.upper(), weight=parcel.weight * copies)


def several(word: str) -> list[dict[str, object]]:
    """Gives back a list."""
    return [{"word": word, "parcel": Parcel(to=word)}]


def nothing() -> None:
    """Gives back nothing."""


def reimburse(purpose: str, amount: int) -> dict[str, object]:
    """Pays somebody back."""
    return {"status": "ok", "purpose": purpose, "amount": amount}


def deploy(service: str, version: str, tool_context: Context) -> dict[str, object]:
    """Deploys a version, and remembers it."""
    tool_context.state["deployed"] = f"{service} {version}"
    return {"deployed": service, "version": version}


def over_1000(purpose: str, amount: int) -> bool:
    """ADK gives a predicate the tool's arguments, and fails if it does not accept them."""
    return amount > 1000


def request_time_off(days: int, tool_context: Context) -> dict[str, object]:
    """Asks a manager for days off."""
    confirmation = tool_context.tool_confirmation
    if not confirmation:
        tool_context.request_confirmation(hint="How many days?", payload={"approved_days": 0})
        return {"status": "Manager approval is required."}
    approved = min(confirmation.payload["approved_days"], days)
    return {"status": "ok", "approved_days": approved}


def silent_request(text: str, tool_context: Context) -> None:
    """Asks, and gives back nothing while it waits."""
    if not tool_context.tool_confirmation:
        tool_context.request_confirmation(hint="May I?", payload=None)


PENDING = ({"status": "Manager approval is required."}, {"result": None})


def stop_here(tool_context: Context) -> dict[str, object]:
    """A tool whose result needs no words from the model."""
    tool_context.actions.skip_summarization = True
    return {"status": "enough said"}


# The agents


@dataclass(frozen=True)
class Gate:
    """A tool behind `require_confirmation`."""

    function: Callable[..., object]
    when: bool | Callable[..., bool] = True


@dataclass(frozen=True)
class Role:
    """An agent, as either runtime builds it."""

    name: str
    tools: Sequence[Callable[..., object] | Gate] = ()
    below: Sequence[Role] = ()
    description: str = ""


TOOLS = (
    lookup,
    count,
    plain,
    pack,
    several,
    nothing,
    stop_here,
    request_time_off,
    silent_request,
    Gate(reimburse, over_1000),
    Gate(deploy),
)

ROLES = (
    Role("clerk", TOOLS, description="Does all that the house can do."),
    Role("keeper", TOOLS, description="The same, with an app's state of its own."),
    Role(
        "front",
        (lookup,),
        (
            Role("payer", (Gate(reimburse), count), description="Pays people back."),
            Role("pilot", (Gate(deploy), lookup), (Role("copilot", (plain,)),), "Deploys."),
        ),
        "Hands over.",
    ),
)
CAST = {role.name: role for role in ROLES}
