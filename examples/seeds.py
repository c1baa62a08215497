"""The samples of ADK's own documents on tool confirmation, with our imports; each is run by a test as it is described.

The three of ADK Python are served with `adk-confirm api --agent adk_confirm.examples.seeds:human_tool_confirmation`;
the one of adk-rs speaks the response dialect: `--agent adk_confirm.examples.seeds:transfer --dialect response`.
"""

from __future__ import annotations

from adk_confirm import Agent, FunctionTool, Model, ToolContext
from adk_confirm.examples.offline import model
from adk_confirm.runtime.jsontypes import JsonObject

# The boolean confirmation


def reimburse(purpose: str, amount: int) -> dict[str, object]:
    """Reimburse the employee for the given purpose and amount."""
    return {"status": "ok", "purpose": purpose, "amount": amount}


async def confirmation_threshold(amount: int, tool_context: ToolContext) -> bool:  # noqa: ARG001  (as in the sample)
    """Returns true if the amount is greater than 1000."""
    return amount > 1000


# The advanced confirmation


def request_time_off(days: int, tool_context: ToolContext) -> dict[str, object]:
    """Request day off for the employee."""
    tool_confirmation = tool_context.tool_confirmation
    if not tool_confirmation:
        tool_context.request_confirmation(
            hint=(
                "Please approve or reject the tool call request_time_off() by"
                " responding with a FunctionResponse with an expected"
                " ToolConfirmation payload."
            ),
            payload={
                "approved_days": 0,
            },
        )
        # Return intermediate status indicating that the tool is waiting for a confirmation response:
        return {"status": "Manager approval is required."}

    payload = tool_confirmation.payload
    assert isinstance(payload, dict)
    approved_days = payload["approved_days"]
    assert isinstance(approved_days, int)
    approved_days = min(approved_days, days)
    if approved_days == 0:
        return {"status": "The time off request is rejected.", "approved_days": 0}
    return {
        "status": "ok",
        "approved_days": approved_days,
    }


# The transfer of the Rust page


async def transfer_money(amount: float) -> JsonObject:
    """Transfer money between accounts"""
    return {"ok": True, "transferred": amount}


def asking_always(model: str | Model) -> Agent:
    return Agent(
        name="human_tool_confirmation_always",
        model=model,
        tools=[
            # Set require_confirmation to True to require user confirmation
            # for the tool call.
            FunctionTool(reimburse, require_confirmation=True),
        ],
    )


def asking_above(model: str | Model) -> Agent:
    return Agent(
        name="human_tool_confirmation",
        model=model,
        tools=[
            # Set require_confirmation to True to require user confirmation
            FunctionTool(reimburse, require_confirmation=confirmation_threshold),
            request_time_off,
        ],
    )


def transferring(model: str | Model) -> Agent:
    return Agent(
        name="transfer",
        model=model,
        tools=[FunctionTool(transfer_money, require_confirmation=True, hint="Approve this transfer?")],
    )


human_tool_confirmation_always = asking_always(model())
human_tool_confirmation = asking_above(model())
transfer = transferring(model())
