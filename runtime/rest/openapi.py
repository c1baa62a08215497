"""The API's description at `/openapi.json`, where clients look up what a request may contain, as with ADK's."""

from __future__ import annotations

from pydantic.json_schema import models_json_schema

from runtime.adk.signing import OUR_API
from runtime.jsontypes import JsonObject
from runtime.rest.bodies import CreateSessionRequest, RunAgentRequest, SettleCallRequest, UpdateSessionRequest

_SESSIONS = "/apps/{app_name}/users/{user_id}/sessions"
_BODIES = {
    ("post", "/run"): RunAgentRequest,
    ("post", "/run_sse"): RunAgentRequest,
    ("post", _SESSIONS): CreateSessionRequest,
    ("patch", f"{_SESSIONS}/{{session_id}}"): UpdateSessionRequest,
    ("post", f"{_SESSIONS}/{{session_id}}/calls/{{call_id}}"): SettleCallRequest,
}
_BARE = (
    ("get", "/health"),
    ("get", "/version"),
    ("get", "/list-apps"),
    ("get", _SESSIONS),
    ("post", f"{_SESSIONS}/{{session_id}}"),
    ("get", f"{_SESSIONS}/{{session_id}}"),
    ("delete", f"{_SESSIONS}/{{session_id}}"),
    ("get", f"{_SESSIONS}/{{session_id}}/calls"),
)


def openapi(version: str) -> JsonObject:
    """Paths, their parameters and bodies. The responses are ADK's and are documented there."""
    models = [(model, "validation") for model in dict.fromkeys(_BODIES.values())]
    _, described = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]  # its mode is a literal
    paths: dict[str, JsonObject] = {}
    for method, path in [*_BODIES, *_BARE]:
        paths.setdefault(path, {})[method] = _operation(method, path)
    return {
        "openapi": "3.1.0",
        "info": {"title": OUR_API, "version": version},
        "paths": {**paths},
        "components": {"schemas": described["$defs"]},
    }


def _operation(method: str, path: str) -> JsonObject:
    names = [step[1:-1] for step in path.split("/") if step.startswith("{")]
    operation: JsonObject = {
        "parameters": [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names],
        "responses": {"200": {"description": "Successful Response"}},
    }
    body = _BODIES.get((method, path))
    if body is not None:
        schema: JsonObject = {"$ref": f"#/components/schemas/{body.__name__}"}
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return operation
