"""The sessions of the replayed servers, and how their agents read them."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

from tests.support.foreign.wishes import Plain

ASK = "adk_request_confirmation"


class Sessions:
    """All sessions, by app, user and id. They are written after each event if they must outlive the process."""

    def __init__(self, file: str | None = None) -> None:
        self._file = Path(file) if file else None
        stored = self._file is not None and self._file.exists()
        self.all: dict[str, list[Plain]] = json.loads(self._file.read_text()) if self._file and stored else {}

    def add(self, key: str, event: Plain) -> Plain:
        self.all[key].append(event)
        if self._file is not None:
            self._file.write_text(json.dumps(self.all))
        return event

    def of(self, owner: str) -> list[str]:
        return [key.removeprefix(owner) for key in self.all if key.startswith(owner)]


def key_of(app: str, user: str, session: str) -> str:
    return f"{app}/{user}/{session}"


def parts_of(events: list[Plain]) -> list[Plain]:
    return [part for event in events for part in event["content"]["parts"]]


def asked_in(event: Plain) -> list[tuple[str, Plain]]:
    """The requests in an event: the id of the part that asks, and the call to which it belongs."""
    found = []
    for part in event["content"]["parts"]:
        one = part.get("functionCall") or part.get("functionResponse") or {}
        content = one.get("args") or one.get("response") or {}
        if one.get("name") == ASK and "originalFunctionCall" in content:
            found.append((one["id"], content["originalFunctionCall"]))
    return found


def answered(events: list[Plain]) -> set[str]:
    return {part["functionResponse"]["id"] for part in parts_of(events) if _is_answer(part)}


def shown(events: list[Plain]) -> list[Plain]:
    """What a model sees: no requests, no answers, and only the last response to each call."""
    last = {part["functionResponse"]["id"]: part for part in parts_of(events) if _is_result(part)}
    seen = []
    for event in events:
        parts = [part for part in event["content"]["parts"] if not _is_confirming(part)]
        kept = [part for part in parts if not _is_result(part) or last[part["functionResponse"]["id"]] is part]
        if kept:
            seen.append({**event["content"], "parts": kept})
    return seen


def response_to(call: Plain, result: Plain) -> Plain:
    return {"functionResponse": {"id": call["id"], "name": call["name"], "response": result}}


def request_about(call: Plain, confirmation: Plain) -> Plain:
    """The part that asks, in the dialect of all but adk-rs: a call with an id of its own."""
    arguments = {"originalFunctionCall": call, "toolConfirmation": confirmation}
    return {"functionCall": {"id": f"adk-{uuid4()}", "name": ASK, "args": arguments}}


def _is_answer(part: Plain) -> bool:
    response = part.get("functionResponse", {})
    return response.get("name") == ASK and "confirmed" in response["response"]


def _is_result(part: Plain) -> bool:
    return "functionResponse" in part and not _is_confirming(part)


def _is_confirming(part: Plain) -> bool:
    return any(part.get(kind, {}).get("name") == ASK for kind in ("functionCall", "functionResponse"))
