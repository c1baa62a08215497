"""Asks people at the door, with nothing but Python's own library.

given = approved("deploy", {"env": "prod"}, reason="Fixes the rounding of totals")   # raises NotApproved
deploy(**given.arguments)
given.report(done=True)
"""

import json
import os
import secrets
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass
from typing import Any


class NotApproved(Exception):
    """Nothing may run. The message says why."""


@dataclass
class Approved:
    """One attempt of a call, with the arguments that people approved."""

    path: str
    claim: str
    arguments: dict[str, Any]
    permit: str

    def report(self, *, done: bool, **result: Any) -> None:
        status = "done" if done else "failed"
        _send("POST", f"{self.path}/result", {"claim": self.claim, "status": status, "result": result})


def approved(tool: str, arguments: dict[str, Any], reason: str = "") -> Approved:
    """Waits until people have decided, and claims the call."""
    body = {"tool": tool, "arguments": arguments, "reason": reason}
    task = _send("POST", "/v1/asks?wait=50s", body, key=str(uuid.uuid4()))["task"]
    path = task["status_endpoint"]
    while task["status"] == "pending":
        task = _send("GET", f"{path}?wait=50s")["task"]
    if task["status"] != "approved":  # one that we do not know is no approval either
        raise NotApproved(task.get("reason") or f"It is {task['status']}.")
    claim = secrets.token_urlsafe(24)
    given = _send("POST", f"{path}/claim", {"claim": claim})
    return Approved(path, claim, given["arguments"], given["permit"])


def _send(method: str, path: str, body: Any = None, key: str = "") -> Any:
    headers = {"Authorization": f"Bearer {os.environ['ADK_CONFIRM_DOOR_TOKEN']}", "Idempotency-Key": key}
    data = None if body is None else json.dumps(body).encode()
    if data is not None:
        headers["Content-Type"] = "application/json"
    door = os.environ.get("ADK_CONFIRM_DOOR", "http://127.0.0.1:3001")
    try:
        request = urllib.request.Request(f"{door}{path}", data, headers, method=method)  # noqa: S310  (our own address)
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise NotApproved(json.load(error)["error"]["message"]) from error
