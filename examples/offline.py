"""A model without a network: it understands the plain sentences that the on-call agent is for, and no others."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from runtime import Content, FunctionCall, FunctionResponse, Model, ModelRequest, ScriptedModel, call
from runtime.jsontypes import Json, JsonObject

_HELP = (
    "I can do this: “reimburse 1500 for the team dinner”, “deploy checkout 2.4.1 to prod”, “I need 3 days off”, "
    "“refund Ada 20 for the mug”, “what runs as checkout?”, and several at once with “and”."
)
_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")


def model() -> str | Model:
    """Gemini if there is a key for it, else one that needs none."""
    return "gemini-2.5-flash" if any(os.environ.get(key) for key in _KEYS) else offline()


def offline() -> ScriptedModel:
    return ScriptedModel(reply=reply)


def reply(request: ModelRequest) -> str | list[str | FunctionCall]:
    """The next thing to say: calls for what somebody wants, a sentence for what came of them."""
    last = request.contents[-1] if request.contents else Content()
    results = list(last.responses())
    if results:
        calls = {asked.id: asked for asked in request.contents[-2].calls()}
        return " ".join(_outcome(calls.get(result.id), result) for result in results)
    offered = {tool.name for tool in request.tools}
    wanted = [asked for asked in understand(last.text) if asked.name in offered]
    return [*wanted] or _HELP


# What somebody wants

_NUMBER = r"(\d[\d.,]*)"
_MONEY = rf"(?:[€$£]\s*)?{_NUMBER}(?:\s*(?:€|\$|£|eur|euros?|usd|dollars?))?"


def _reimburse(found: re.Match[str]) -> FunctionCall:
    return call("reimburse", purpose=found["purpose"].strip(), amount=_number(found[1]))


def _deploy(found: re.Match[str]) -> FunctionCall:
    return call("deploy", service=found["service"], version=found["version"], env=found["env"] or "prod")


def _days(found: re.Match[str]) -> FunctionCall:
    return call("request_time_off", days=1 if found[1] in ("a", "one") else int(found[1]))


def _refund(found: re.Match[str]) -> FunctionCall:
    line: JsonObject = {"item": found["item"].strip(), "amount": _number(found[2])}
    return call("refund", customer=found["customer"], lines=[line])


def _lookup(found: re.Match[str]) -> FunctionCall:
    return call("lookup", topic="on-call" if "call" in found["topic"] else found["topic"])


_SENTENCES: tuple[tuple[str, Callable[[re.Match[str]], FunctionCall]], ...] = (
    (rf"\breimburse\s+{_MONEY}\s+(?:for|to)\s+(?P<purpose>.+)", _reimburse),
    (r"\bdeploy\s+(?P<service>[\w-]+)\s+v?(?P<version>\d[\w.+-]*)(?:\s+(?:to|on)\s+(?P<env>\w+))?", _deploy),
    (r"\b(\d+|a|one)\s+days?\s+(?:off|of\s+leave)", _days),
    (rf"\brefund\s+(?P<customer>[\w-]+)\s+{_MONEY}\s+for\s+(?P<item>.+)", _refund),
    (r"\b(?:who\s+is|look\s+up|what\s+runs(?:\s+as|\s+on)?)\s+(?P<topic>[\w-]+(?:\s+call)?)", _lookup),
)
_NEXT = re.compile(
    r"[,;.]?\s+(?:and|then)\s+(?=(?:please\s+)?(?:reimburse|deploy|i\s+need|refund|who|look|what)\b)", re.I
)


def understand(text: str) -> list[FunctionCall]:
    """The calls that the text asks for, in its order."""
    calls = []
    for clause in _NEXT.split(text.replace("’", "'")):
        sentence = clause.strip().rstrip("!?. ")
        for pattern, make in _SENTENCES:
            if found := re.search(pattern, sentence, re.IGNORECASE):
                calls.append(make(found))
                break
    return calls


def _number(text: str) -> Json:
    """`1,500` and `1500` are whole, `12.50` is not."""
    plain = re.sub(r"[.,](?=\d{3}(?:\D|$))", "", text.rstrip(".,")).replace(",", ".")
    return float(plain) if "." in plain else int(plain)


# What came of it


def _outcome(asked: FunctionCall | None, result: FunctionResponse) -> str:
    response = result.response or {}
    what = _named(str(result.name), asked.arguments if asked else {})
    error = response.get("error")
    if error == "tool call was rejected by the user":
        reason = response.get("reason")
        why = f" The reason: {_sentence(reason)} Tell me what would fit, and I will ask again." if reason else ""
        return f"{what} was denied, so I did nothing.{why}"
    if error:
        return f"{what} did not work: {_sentence(error)}"
    return _done(str(result.name), response) or f"{what} is done: {_listed(response)}."


def _done(tool: str, result: JsonObject) -> str | None:
    if tool == "reimburse" and "amount" in result:
        return f"I reimbursed {result['amount']} for {result.get('purpose')}."
    if tool == "deploy" and "version" in result:
        return f"{result.get('service')} {result['version']} is on {result.get('env')} now."
    if tool == "request_time_off" and "approved_days" in result:
        days = result["approved_days"]
        return f"You have {days} days off." if days else "No days off were approved."
    if tool == "refund" and "total" in result:
        return f"{result.get('customer')} got {result['total']} back."
    if tool == "lookup" and "version" in result:
        return f"{result.get('service')} runs in version {result['version']}."
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
