"""Refunds: the agent proposes an amount, and the approver sets the final one.

The tool asks by itself, with a payload: the card has a form for it. Run it with `examples/adk/refund/adk-confirm.toml`.
"""

from __future__ import annotations

from google.adk.agents import LlmAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext

ORDERS = {"A-1001": 240.0, "A-1002": 18.5}


def look_up_order(order: str) -> dict[str, object]:
    """Says what an order cost, in euros."""
    paid = ORDERS.get(order)
    return {"error": f"There is no order {order}."} if paid is None else {"order": order, "paid": paid}


def refund(order: str, amount: float, tool_context: ToolContext) -> dict[str, object]:
    """Refunds an order, in euros. A colleague decides on the amount."""
    confirmation = tool_context.tool_confirmation
    if confirmation is None:
        tool_context.request_confirmation(
            hint=f"Refund order {order}? The customer asks for {amount:.2f} €.", payload={"amount": amount, "note": ""}
        )
        return {"status": "A colleague has to approve the refund."}
    payload = confirmation.payload or {}
    if not confirmation.confirmed:
        return {"status": "refused", "reason": payload.get("reason", "")}
    return {"status": "refunded", "order": order, "amount": payload["amount"], "note": payload.get("note", "")}


root_agent = LlmAgent(
    name="refund",
    model="gemini-2.5-flash",
    instruction="You handle refunds. Look the order up, then call refund at once: a colleague decides.",
    tools=[FunctionTool(look_up_order), FunctionTool(refund)],
)

app = App(name="refund", root_agent=root_agent, resumability_config=ResumabilityConfig(is_resumable=True))
