"""ADK Java's server according to the sources of its version 1.8.0 (`dev/…/web/controller`): times in milliseconds, no
space after `data:`, an existing session is not created again, a failed tool gives no details, and a failed run just
ends the stream. It has no MCP server: the real one plays that.

`python -m tests.support.foreign.java`
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

from aiohttp import web

from tests.support.foreign.kept import request_about, response_to
from tests.support.foreign.replay import Replay, serve
from tests.support.foreign.wishes import Plain


class Java(Replay):
    async def create(self, request: web.Request) -> web.Response:
        if (await self.get(request)).status == 200:
            return web.json_response({"status": 400, "error": "Bad Request"}, status=400)
        return await super().create(request)

    def stamped(self) -> Plain:
        return {"timestamp": int(time.time() * 1000)}

    def asking(self, call: Plain, confirmation: Plain) -> Iterable[tuple[list[Plain], Plain]]:
        request = request_about(call, confirmation)
        yield [request], {"longRunningToolIds": [request["functionCall"]["id"]]}
        waits = {"error": "This tool call requires confirmation, please approve or reject."}
        if call["name"] == "request_time_off":
            waits = {"status": "Manager approval is required."}
        yield [response_to(call, waits)], {"actions": {"requestedToolConfirmations": {call["id"]: confirmation}}}

    def denied(self, call: Plain) -> Plain:  # noqa: ARG002
        return {"error": "This tool call is rejected."}

    def failed(self, call: Plain, error: Exception) -> Plain:  # noqa: ARG002
        return {"status": "error", "message": "An internal error occurred."}

    def as_message(self, event: Plain) -> str:
        return f"data:{json.dumps(event)}\n\n"

    def as_failure(self, error: Exception) -> str:  # noqa: ARG002
        return ""


if __name__ == "__main__":
    serve(Java)
