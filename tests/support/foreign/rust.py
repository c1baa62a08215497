"""adk-rs according to its documents and sources: a request is a response that will continue, with the call's own id,
and every run begins with the root agent, even if a sub-agent's call is answered. An approved call that needs a sign-in
asks for it in the same way.

`python -m tests.support.foreign.rust`
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from tests.support.foreign.kept import ASK
from tests.support.foreign.replay import Replay, serve
from tests.support.foreign.wishes import Plain

SIGN_IN = "adk_request_credential"
HUSH = "a client's secret"


class Rust(Replay):
    def starts_with(self, root: str, owner: str | None, spoke_last: str | None) -> str:  # noqa: ARG002
        return root

    def from_mcp(self, result: Plain) -> Plain:
        return result

    def asking(self, call: Plain, confirmation: Plain) -> Iterable[tuple[list[Plain], Plain]]:
        content = {"originalFunctionCall": call, "toolConfirmation": confirmation}
        response = {"id": call["id"], "name": ASK, "response": content, "willContinue": True}
        yield [{"functionResponse": response}], {"longRunningToolIds": [call["id"]]}

    def signing_in(self, call: Plain, given: Plain) -> Plain | None:
        if call["name"] != "read_calendar" or given.get("confirmed") is not True:
            return None
        config = {"authScheme": {"type": "oauth2"}, "exchangedAuthCredential": {"oauth2": {"clientSecret": HUSH}}}
        response = {"id": call["id"], "name": SIGN_IN, "response": {"authConfig": config}, "willContinue": True}
        return {"functionResponse": response}

    async def _run_confirmed(self, call: Plain, given: Plain) -> Plain:
        return await super()._run_confirmed(call, {"confirmed": True} if "authConfig" in given else given)

    def denied(self, call: Plain) -> Plain:  # noqa: ARG002  (others say which)
        return {"error": "tool call was rejected by the user"}

    def failed(self, call: Plain, error: Exception) -> Plain:  # noqa: ARG002
        return {"error": str(error)}

    def as_failure(self, error: Exception) -> str:
        return f"event: error\ndata: {json.dumps(str(error))}\n\n"


if __name__ == "__main__":
    serve(Rust)
