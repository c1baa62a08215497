"""The API's description at `/openapi.json`, where clients look up what a request may contain, as with ADK's."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web
from pydantic.json_schema import models_json_schema

from runtime.adk.signing import OUR_API
from runtime.jsontypes import JsonObject
from runtime.rest.bodies import CreateSessionRequest, RunAgentRequest, SettleCallRequest, UpdateSessionRequest
from runtime.wire import WireModel

_BODIES: dict[str, type[WireModel]] = {
    "run": RunAgentRequest,
    "run_sse": RunAgentRequest,
    "create_session": CreateSessionRequest,
    "update_session": UpdateSessionRequest,
    "settle_call": SettleCallRequest,
}
"""What the handlers of these names read."""


def openapi(version: str, routes: Iterable[web.RouteDef]) -> JsonObject:
    """Paths, their parameters and bodies. The responses are ADK's and are documented there."""
    models = [(model, "validation") for model in dict.fromkeys(_BODIES.values())]
    _, described = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]  # its mode is a literal
    paths: dict[str, JsonObject] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": OUR_API, "version": version},
        "paths": {**paths},
        "components": {"schemas": described["$defs"]},
    }


def _operation(route: web.RouteDef) -> JsonObject:
    names = [step[1:-1] for step in route.path.split("/") if step.startswith("{")]
    operation: JsonObject = {
        "parameters": [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names],
        "responses": {"200": {"description": "Successful Response"}},
    }
    if body := _BODIES.get(route.handler.__name__):
        schema: JsonObject = {"$ref": f"#/components/schemas/{body.__name__}"}
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return operation
