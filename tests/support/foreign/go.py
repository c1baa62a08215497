"""ADK Go's REST server according to the sources of its version 2.2.0 (`server/adkrest`): it refuses unknown fields,
answers 500 for a missing session and `null` for an empty list, says neither its version nor when an event happened, and
writes what is absent as null.

`python -m tests.support.foreign.go`
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from aiohttp import web

from tests.support.foreign.kept import request_about, response_to
from tests.support.foreign.replay import Refused, Replay, serve
from tests.support.foreign.wishes import Plain

REQUEST = {"appName", "userId", "sessionId", "newMessage", "streaming", "stateDelta", "functionCallEventId"}
CONTENT = {"role", "parts"}
PART = {"text", "inlineData", "fileData", "functionCall", "functionResponse", "thought", "thoughtSignature"}
RESPONSE = {"id", "name", "response", "willContinue", "scheduling", "parts"}


class Go(Replay):
    def routes(self) -> list[web.RouteDef]:
        declared = [web.get("/apps/{app}/app-info", self.declared)] if "DECLARES" in os.environ else []
        return [*declared, *super().routes()]

    async def declared(self, _: web.Request) -> web.Response:
        """As google-adk does: a server with another schema than its tool's."""
        schema = json.loads(os.environ["DECLARES"])
        tool = {"functionDeclarations": [{"name": "reimburse", "parametersJsonSchema": schema}]}
        return web.json_response({"agents": {"clerk": {"tools": [tool]}}})

    async def listed(self, request: web.Request) -> web.Response:
        listed = await super().listed(request)
        return web.json_response(None) if listed.text == "[]" else listed

    async def create(self, request: web.Request) -> web.Response:
        if (await self.get(request)).status == 200:
            return web.Response(status=500, text=f"session {request.match_info['session']} already exists")
        return await super().create(request)

    def stamped(self) -> Plain:
        return {
            "groundingMetadata": None,
            "usageMetadata": None,
            "actions": {"stateDelta": None, "artifactDelta": None},
        }

    def no_session(self) -> web.Response:
        return web.Response(status=500, text="session not found")

    def taken(self, body: Plain) -> None:
        message = body.get("newMessage", {})
        parts = message.get("parts", [])
        responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
        checked = [(body, REQUEST), (message, CONTENT), *((part, PART) for part in parts)]
        for written, known in [*checked, *((one, RESPONSE) for one in responses)]:
            for name in written.keys() - known:
                raise Refused(f'failed to decode request body: json: unknown field "{name}"')

    def asking(self, call: Plain, confirmation: Plain) -> Iterable[tuple[list[Plain], Plain]]:
        request = request_about(call, confirmation)
        actions: Plain = {"stateDelta": {}, "artifactDelta": {}, "skipSummarization": True}
        waits = f'error tool "{call["name"]}" requires confirmation, please approve or reject'
        if call["name"] == "request_time_off":
            yield [response_to(call, {"status": "Manager approval is required."})], {"actions": actions}
        else:
            yield [response_to(call, {"error": waits})], {"actions": actions}
        yield [request], {"longRunningToolIds": [request["functionCall"]["id"]]}

    def denied(self, call: Plain) -> Plain:
        return {"error": f'error tool "{call["name"]}" call is rejected'}

    def failed(self, call: Plain, error: Exception) -> Plain:  # noqa: ARG002
        return {"error": str(error)}

    def from_mcp(self, result: Plain) -> Plain:
        return {"output": result["structuredContent"]}


if __name__ == "__main__":
    serve(Go)
