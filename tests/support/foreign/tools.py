"""The tools of these agents. Each writes what it does to a log. A lingering tool waits for a line on a FIFO."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any


def log(tool: str, **what: object) -> None:
    with open(os.environ["TOOL_LOG"], "a") as file:
        file.write(json.dumps({"tool": tool, **what}) + "\n")


def over_1000(amount: int) -> bool:
    return amount > 1000


def reimburse(amount: int) -> dict[str, object]:
    """Pays somebody back."""
    log("reimburse", amount=amount)
    return {"paid": amount}


def deploy(service: str) -> dict[str, object]:
    """Deploys."""
    log("deploy", service=service)
    return {"deployed": service}


MODEL = "model"
"""What google-adk's model waits for, if it is held."""


async def hold_model() -> None:
    if os.path.exists(f"{os.environ.get('TOOL_FIFO')}-{MODEL}"):
        log(MODEL, begun=MODEL)
        await asyncio.to_thread(_wait_for, MODEL)


async def linger(word: str) -> dict[str, object]:
    """Takes its time."""
    log("linger", begun=word)
    await asyncio.to_thread(_wait_for, word)
    log("linger", ended=word)
    return {"word": word}


def _wait_for(word: str) -> None:
    with open(f"{os.environ['TOOL_FIFO']}-{word}") as fifo:
        fifo.read()


def break_down(word: str) -> dict[str, object]:
    """Fails."""
    log("break_down", word=word)
    raise ValueError(f"no {word} today")


def is_armed(target: str) -> bool:
    """The result of a predicate, which may change between the request and its answer."""
    return os.path.exists(f"{os.environ['TOOL_LOG']}.armed")


def launch(target: str) -> dict[str, object]:
    """Launches."""
    log("launch", target=target)
    return {"launched": target}


def wipe(disk: str, tool_context: Any) -> dict[str, object]:
    """Asks, and ignores the answer."""
    if not tool_context.tool_confirmation:
        tool_context.request_confirmation(hint="Wipe it?")
        return {"status": "asked"}
    log("wipe", disk=disk)
    return {"wiped": disk}


def lookup(topic: str) -> dict[str, object]:
    """Looks something up."""
    return {"topic": topic}


def request_time_off(days: int, tool_context: Any) -> dict[str, object]:
    """Asks a manager for days off."""
    confirmation = tool_context.tool_confirmation
    if not confirmation:
        tool_context.request_confirmation(hint="How many days?", payload={"approved_days": 0})
        return {"status": "Manager approval is required."}
    approved = min(confirmation.payload["approved_days"], days)  # as in ADK's own example: denied means 0 days
    if not approved:
        return {"status": "The time off request is rejected.", "approved_days": 0}
    log("request_time_off", days=approved)
    return {"approved_days": approved}


def read_calendar(day: str, tool_context: Any) -> dict[str, object]:
    """Needs a sign-in each time."""
    from google.adk.auth.auth_tool import AuthConfig

    scheme = {"type": "apiKey", "name": "X-Api-Key", "in": "header"}
    tool_context.request_credential(AuthConfig.model_validate({"auth_scheme": scheme, "credential_key": "calendar"}))
    return {"pending": True}
