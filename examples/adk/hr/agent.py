"""An assistant on google-adk whose calls wait for people: every kind of gate, with our plugin.

In the bot's process, or on ADK's own server with the bot in front of it:

    [agent]                                        adk api_server examples/adk --port 8000
    target = "adk_confirm.examples.adk.hr.agent:app"
                                                   [agent]
                                                   url = "http://127.0.0.1:8000"
                                                   app = "hr"

It uses Gemini: set GOOGLE_API_KEY. On a server, set ADK_CONFIRM_PLUGIN_SECRET for both, and name it with `secret_env`:
the plugin accepts answers only from the bot.
"""

from __future__ import annotations

from google.adk.agents import LlmAgent
from google.adk.apps.app import App
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext

from adk_confirm import ConfirmationPlugin


def reimburse(purpose: str, amount: float) -> dict[str, object]:
    """Pays somebody back what they spent, in euros."""
    return {"status": "ok", "purpose": purpose, "amount": amount}


def over_1000(purpose: str, amount: float) -> bool:  # noqa: ARG001  (google-adk hands over every argument)
    """Whether the amount is so large that people are asked."""
    return amount > 1000


def close_account(user: str) -> dict[str, object]:
    """Closes the account of somebody who has left."""
    return {"status": "closed", "user": user}


def request_time_off(days: int, tool_context: ToolContext) -> dict[str, object]:
    """Asks a manager for days off. The manager says how many."""
    if tool_context.tool_confirmation is None:
        tool_context.request_confirmation(hint="How many days?", payload={"approved_days": 0})
        return {"status": "Manager approval is required."}
    payload = tool_context.tool_confirmation.payload or {}
    approved = min(payload.get("approved_days", 0), days)
    return {"status": "ok", "approved_days": approved}


root_agent = LlmAgent(
    name="hr",
    model="gemini-2.5-flash",
    instruction="You help employees. Call the tools at once: people decide what needs deciding.",
    tools=[
        FunctionTool(reimburse, require_confirmation=over_1000),
        FunctionTool(close_account, require_confirmation=True),
        FunctionTool(request_time_off),
    ],
)

app = App(name="hr", root_agent=root_agent, plugins=[ConfirmationPlugin()])
