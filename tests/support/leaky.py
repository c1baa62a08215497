"""An agent that leaks: it and its tools repeat their secrets before, with and after every call.

People never write these secrets. If Slack, the log or the ledger show one, it came from this agent.
"""

from __future__ import annotations

import asyncio

from adk_confirm import Agent, Content, FunctionCall, FunctionTool, ModelRequest, ScriptedModel, ToolContext
from adk_confirm.runtime.jsontypes import Json, JsonObject, canonical
from adk_confirm.runtime.models.scripted import ScriptLine
from adk_confirm.runtime.tool import ToolOutcomeUnknown

TOKEN = "s3cr3t-of-the-safe"
NESTED = "k3y-deep-inside"
FRESH = "n3w-from-the-tool"
LATE = "0ld-from-the-tool"
SECRETS = (TOKEN, NESTED, FRESH, LATE)

TOKENS: JsonObject = {
    "token": TOKEN,
    "env": {"list": [{"api_token": NESTED}], "note": "as ever"},
    "script": "curl -H @headers https://x.example/",
    "body": {"token": TOKEN},
    "number": 1,
}


def unlock(token: str, env: dict[str, object], script: str, body: dict[str, object], number: int) -> JsonObject:
    """Opens the safe."""
    return {"token": FRESH, "rest": [{"api_token": LATE}], "said": f"{token} {NESTED} {FRESH}", "number": number}


def jams(token: str, env: dict[str, object], script: str, body: dict[str, object], number: int) -> JsonObject:
    """Does not open it."""
    raise RuntimeError(f"no {token} for {NESTED}")


def loses(token: str, env: dict[str, object], script: str, body: dict[str, object], number: int) -> JsonObject:
    """Nobody knows."""
    raise ToolOutcomeUnknown(f"lost {token} with {NESTED}")


async def asks(token: str, tool_context: ToolContext) -> JsonObject:
    """Asks by itself."""
    if tool_context.tool_confirmation is None:
        payload: Json = {"token": token, "auth": {"api_token": NESTED}, "door": "door of the safe", "number": 1}
        tool_context.request_confirmation(hint=f"Open with {token} and {NESTED}?", payload=payload)
        return {"status": f"waits with {token}"}
    await asyncio.sleep(0)
    return {"token": FRESH, "said": f"{tool_context.tool_confirmation.payload} {FRESH}"}


def reply(request: ModelRequest) -> ScriptLine:
    last = request.contents[-1] if request.contents else Content()
    results = [f"{result.name}: {canonical(result.response)}" for result in last.responses()]
    if results:
        return "\n".join([*results, f"I used {TOKEN} and {NESTED}."])
    tool, _, more = last.text.strip().partition(" ")
    if tool == "safely":
        return f"You know {TOKEN}, and {NESTED}."
    if tool == "misfits":
        return FunctionCall(name="unlock", args={**TOKENS, "number": TOKEN})
    args = {"token": TOKEN} if tool == "asks" else {**TOKENS, "script": str(TOKENS["script"]) * int(more or 1)}
    return [f"I will open it\nwith {TOKEN}\nand {NESTED}.", FunctionCall(name=tool, args=args)]


agent = Agent(
    name="leaky",
    model=ScriptedModel(reply=reply),
    tools=[*(FunctionTool(tool, require_confirmation=True) for tool in (unlock, jams, loses)), asks],
)
