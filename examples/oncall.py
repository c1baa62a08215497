"""An on-call assistant. It pays small expenses by itself, and asks people before anything that costs more.

    adk-confirm api --agent adk_confirm.examples.oncall:agent

With GOOGLE_API_KEY or GEMINI_API_KEY set it uses Gemini, otherwise the plain sentences of `offline.py`. It
remembers what it did. If ADK_CONFIRM_DEMO_LOG names a file, each effect is a line in it, and the agent still knows it
after a restart. `agent_with_preview` is the same with a preview of each deployment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from adk_confirm import Agent, FunctionTool, ToolContext
from adk_confirm.examples.offline import model

_SERVICES = {"checkout": "2.4.0", "search": "1.9.3", "billing": "5.0.1"}
_effects: list[dict[str, object]] = []
"""The effects so far, if no file holds them."""


class Line(BaseModel):
    """One position of a refund."""

    item: str
    amount: float = Field(gt=0, le=10_000)


def lookup(topic: str) -> dict[str, object]:
    """Looks up which version of a service runs, who is on call, or what was refunded.

    Args:
        topic: a service's name, "on-call" or "refunds".
    """
    name = topic.strip().lower()
    running = _running("prod")
    if name in running:
        staging = _running("staging").get(name)
        return {"service": name, "version": running[name], **({"staging": staging} if staging else {}), "healthy": True}
    if "refund" in name:
        refunds = [f"{done['total']:g} to {done['customer']}" for done in _done() if done["tool"] == "refund"]
        return {"refunds": refunds}
    if "call" in name:
        return {"on_call": "the people of the user group @oncall, this week"}
    return {"error": f"Nothing is known about {topic}. Known are: {', '.join(running)}, on-call, refunds."}


def reimburse(purpose: str, amount: Annotated[float, Field(gt=0)], tool_context: ToolContext) -> dict[str, object]:
    """Pays somebody back what they spent.

    Args:
        purpose: what the money was spent on.
        amount: how much, in euros.
    """
    _log("reimburse", tool_context, purpose=purpose, amount=amount)
    paid: dict[str, object] = {"status": "ok", "purpose": purpose, "amount": amount}
    return paid if tool_context.tool_confirmation else {**paid, "note": "People are asked about more than 1,000."}


def over_1000(amount: float) -> bool:
    """Whether the amount is so large that people are asked."""
    return amount > 1000


def deploy(
    service: str, version: str, tool_context: ToolContext, env: Literal["prod", "staging"] = "prod"
) -> dict[str, object]:
    """Deploys a version of a service.

    Args:
        service: the service's name.
        version: the version, for example 2.4.1.
        env: where to: prod or staging.
    """
    _log("deploy", tool_context, service=service, version=version, env=env)
    return {"status": "deployed", "service": service, "version": version, "env": env}


def plan_deploy(service: str, version: str, env: str) -> str:
    """What runs now against what would run, as a unified diff."""
    name = service.lower()
    now = _running(env).get(name)
    if now == version:
        return f"Nothing would change: {name} {version} runs on {env}."
    before = [f"{name} {now}"] if now else []
    return "\n".join(unified_diff(before, [f"{name} {version}"], env, env, lineterm=""))


def request_time_off(days: int, tool_context: ToolContext) -> dict[str, object]:
    """Asks a manager for days off.

    Args:
        days: how many days are wanted.
    """
    confirmation = tool_context.tool_confirmation
    if confirmation is None:
        tool_context.request_confirmation(hint="How many days off do you approve?", payload={"approved_days": days})
        return {"status": "Manager approval is required."}
    approved = confirmation.payload.get("approved_days", days) if isinstance(confirmation.payload, dict) else days
    granted = max(0, min(int(approved), days)) if isinstance(approved, int | float) else 0
    _log("request_time_off", tool_context, days=granted)
    return {"status": "ok" if granted else "rejected", "approved_days": granted}


def refund(customer: str, lines: list[Line], tool_context: ToolContext) -> dict[str, object]:
    """Gives a customer money back.

    Args:
        customer: who gets it.
        lines: what for, each with its amount in euros.
    """
    total = sum(line.amount for line in lines)
    _log("refund", tool_context, customer=customer, lines=[line.model_dump() for line in lines], total=total)
    return {"status": "refunded", "customer": customer, "total": total}


def refund_title(customer: str, lines: list[Line]) -> str:
    """What people read first."""
    return f"Refund {customer} €{sum(line.amount for line in lines):,.2f}"


def _running(env: str) -> dict[str, str]:
    """The version of each service that runs there."""
    deployed = {
        str(done["service"]).lower(): str(done["version"])
        for done in _done()
        if done["tool"] == "deploy" and done.get("env") == env
    }
    return {**_SERVICES, **deployed} if env == "prod" else deployed


def _done() -> list[dict[str, object]]:
    """Every effect so far, oldest first."""
    path = os.environ.get("ADK_CONFIRM_DEMO_LOG")
    if not path:
        return _effects
    try:
        return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        return []


def _log(tool: str, context: ToolContext, **what: object) -> None:
    """Remembers an effect."""
    effect = {"tool": tool, **what, "session": context.session_id, "call": context.function_call_id}
    path = os.environ.get("ADK_CONFIRM_DEMO_LOG")
    if not path:
        _effects.append(effect)
        return
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(effect)}\n")


def _agent(preview_of_deploy: Callable[..., object] | None = None) -> Agent:
    return Agent(
        name="oncall",
        model=model(),
        description="Reimburses, deploys, refunds, and asks for days off; people approve what matters.",
        instruction=(
            "You help the people on call. Use the tools; do not ask whether you may, since people are asked for their "
            "approval by themselves. When something was denied, say so with the reason, and propose what would fit it."
        ),
        tools=[
            lookup,
            FunctionTool(
                reimburse,
                require_confirmation=over_1000,
                hint="Approve this reimbursement?",
                title="Reimburse €{amount} for {purpose}",
            ),
            FunctionTool(
                deploy,
                require_confirmation=True,
                preview=preview_of_deploy,
                idempotent=True,
                hint="Approve this deployment?",
                title="Deploy {service} {version} to {env}",
            ),
            request_time_off,
            FunctionTool(refund, require_confirmation=True, hint="Approve this refund?", title=refund_title),
        ],
    )


agent = _agent()
agent_with_preview = _agent(plan_deploy)
