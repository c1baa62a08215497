"""A model without a network. It understands the plain sentences that the on-call agent is for, and no others."""

from __future__ import annotations

import os
import re

from adk_confirm import Content, FunctionCall, FunctionResponse, Model, ModelRequest, ScriptedModel
from adk_confirm.examples.sentences import KINDS, puzzles, understand
from adk_confirm.runtime.jsontypes import JsonObject, texts

_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")


def model() -> str | Model:
    """Gemini if there is a key for it, or else the offline model."""
    return "gemini-2.5-flash" if any(os.environ.get(key) for key in _KEYS) else offline()


def offline() -> ScriptedModel:
    return ScriptedModel(reply=reply)


def reply(request: ModelRequest) -> str | list[str | FunctionCall]:
    """The model's next turn: calls for what somebody wants, or a sentence about their results."""
    last = request.contents[-1] if request.contents else Content()
    results = list(last.responses())
    if results:
        calls = {asked.id: asked for asked in request.contents[-2].calls()}
        said = " ".join(_outcome(calls.get(result.id), result) for result in results)
        better = [call for result in results if (call := _instead(calls.get(result.id), result)) is not None]
        return [said, *better] if better else said
    if before := _asked_before(request, last.text):
        return [before]
    offered = {tool.name for tool in request.tools}
    wanted = [asked for asked in understand(last.text) if asked.name in offered]
    puzzling = [kind.example for kind in puzzles(last.text) if kind.tool in offered]
    if not wanted and not puzzling:
        return _help([kind.example for kind in KINDS if kind.tool in offered])
    part = "all of that" if wanted else "that"
    return [*(f"I did not understand {part}. Say it like this: “{example}”." for example in puzzling[:1]), *wanted]


def _help(examples: list[str]) -> str:
    if not examples:
        return "Without a model I can do nothing here: set GOOGLE_API_KEY."
    can = ", ".join(f"“{example}”" for example in examples)
    return f"I can do this: {can}, and several at once with “and”."


def _asked_before(request: ModelRequest, text: str) -> FunctionCall | None:
    """The call that "Ask again" on a card names, once more."""
    if (named := _AGAIN.fullmatch(text)) is None:
        return None
    calls = (asked for content in request.contents for asked in content.calls())
    return next((FunctionCall(name=asked.name, args=asked.arguments) for asked in calls if asked.id == named[1]), None)


_AGAIN = re.compile(r"Ask again for the call of \S+ with the id (\S+)\.")


# Results


def _outcome(asked: FunctionCall | None, result: FunctionResponse) -> str:
    response = result.response or {}
    what = _named(str(result.name), asked.arguments if asked else {})
    error = response.get("error")
    if error == "tool call was rejected by the user":
        reason = response.get("reason")
        why = f" The reason: {_sentence(str(reason).removesuffix('; it did not run'))}" if reason else ""
        expired = str(reason).startswith("nobody decided")
        better = _instead(asked, result)
        if better is not None:
            field = _LIMITED[str(better.name)]
            next_step = f" I try {field} {better.arguments[field]} instead."
        else:
            again = "Say so if I should ask again." if expired else "Tell me what would fit, and I will ask again."
            next_step = f" {again}" if reason else ""
        return f"{what} was not approved, so I did nothing.{why}{next_step}"
    if error:
        return f"{what} did not work: {_sentence(error)}"
    if set(response) == {"status"}:
        return f"{what} is done. {_sentence(response['status'])}"
    return _done(str(result.name), response) or f"{what} is done: {_listed(response)}."


_LIMITED = {"reimburse": "amount", "request_time_off": "days"}
_MOST = re.compile(r"\b(?:max(?:imum)?\.?|at most|up to|no more than) *[€$£]? *(\d[\d,]*(?:\.\d+)?)", re.IGNORECASE)


def _instead(asked: FunctionCall | None, result: FunctionResponse) -> FunctionCall | None:
    """What the reason of a denial allows: "Max €1,000" of 1,500."""
    field, said = _LIMITED.get(str(asked.name)) if asked else None, (result.response or {}).get("reason")
    wanted = asked.arguments.get(field) if asked and field else None
    numbers = [float(found.replace(",", "")) for found in _MOST.findall(said)] if isinstance(said, str) else []
    if asked is None or field is None or not isinstance(wanted, int | float) or len(numbers) != 1:
        return None
    most = int(numbers[0]) if numbers[0].is_integer() else numbers[0]
    return FunctionCall(name=asked.name, args={**asked.arguments, field: most}) if 0 < most < wanted else None


def _done(tool: str, result: JsonObject) -> str | None:
    if tool == "reimburse" and "amount" in result:
        return " ".join([f"I reimbursed {result['amount']} for {result.get('purpose')}.", *texts([result.get("note")])])
    if tool == "deploy" and "version" in result:
        return f"{result.get('service')} {result['version']} is on {result.get('env')} now."
    if tool == "request_time_off" and "approved_days" in result:
        days = result["approved_days"]
        return f"You have {days} days off." if days else "No days off were approved."
    if tool == "refund" and "total" in result:
        return f"{result.get('customer')} got {result['total']} back."
    if tool == "lookup" and "version" in result:
        staging = f", and {result['staging']} on staging" if "staging" in result else ""
        return f"{result.get('service')} runs in version {result['version']}{staging}."
    if tool == "lookup" and isinstance(refunds := result.get("refunds"), list):
        return f"Refunds so far: {', '.join(map(str, refunds))}." if refunds else "Nothing was refunded."
    if tool == "lookup" and "on_call" in result:
        return f"On call: {result['on_call']}."
    return None


def _named(tool: str, args: JsonObject) -> str:
    names = {
        "reimburse": "The reimbursement of {amount} for {purpose}",
        "deploy": "The deployment of {service} {version}",
        "request_time_off": "The request for {days} days off",
        "refund": "The refund for {customer}",
    }
    try:
        return names.get(tool, tool).format(**args)
    except KeyError:
        return tool


def _listed(values: JsonObject) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _sentence(said: object) -> str:
    text = str(said).strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
