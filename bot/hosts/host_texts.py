"""What the bot says about an agent's server, to people and to the agent."""

from __future__ import annotations

from bot.hosts.host import AgentMessage
from bot.hosts.reading import AdkRequest
from runtime.calls.call import Word

GONE = (
    "The agent no longer knows this request: its session is gone, or was started again. "
    "Without a database, sessions are lost when the agent's process ends."
)

ASKED_ANEW = "The agent asked again before this answer reached it, so the answer was dropped. Use the newer card."

ANOTHER = "The call at the agent's server is no longer the one that was approved. Nothing was sent."

NOT_KEPT = "The agent's server accepted the answer, but did not store it."


def denial_message(adk_request: AdkRequest, reason: str) -> str:
    return f"The call {adk_request.request.call.name} ({adk_request.call_id}) was denied: {reason}"


def nobody_answered(adk_request: AdkRequest, reason: str) -> str:
    question = f' "{adk_request.request.hint}"' if adk_request.request.hint else ""
    return f"Nobody answered your question{question}: {reason}. Go on without the answer."


def broken_connection_message(event: str, why: str = "") -> AgentMessage:
    text = "The connection to the agent's server broke before the agent answered. Ask again if you still want it."
    return AgentMessage(event=f"broken:{event}", author="", text=f"{text} ({why})" if why else text, failed=True)


def settlement_message(adk_request: AdkRequest, word: Word) -> str:
    call = f"the call {adk_request.request.call.name} ({adk_request.call_id}), whose outcome was unknown"
    match word:
        case "it happened":
            return f"People looked into {call}: it happened. Do not call it again for this."
        case "it did not":
            return f"People looked into {call}: it did not happen."
        case _:
            return f"Nobody knows what became of {call}: it may have taken effect. Do not simply call it again."
