"""ADK's HTTP API over runners: everything that an ADK client can call, and two endpoints of our own for calls whose
outcome is unknown. It only translates. If a caller disconnects, the run goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from importlib import metadata

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from pydantic.json_schema import models_json_schema

from adk_confirm.runtime.adk.signing import OUR_API
from adk_confirm.runtime.agent import Agent
from adk_confirm.runtime.calls.call import Call
from adk_confirm.runtime.errors import Busy, ConfirmError, Conflict, Forbidden, Invalid, NotFound, StoreError
from adk_confirm.runtime.jsontypes import Json, JsonObject
from adk_confirm.runtime.rest.bodies import (
    MOST_BYTES,
    BadBody,
    CreateSessionRequest,
    RunAgentRequest,
    SettleCallRequest,
    UpdateSessionRequest,
    check_history,
    check_id,
    check_message,
    read_body,
    read_object,
    read_optional,
)
from adk_confirm.runtime.rest.guard import Guard, Unauthorized, cors_headers, preflight
from adk_confirm.runtime.rest.listening import NOT_ENCODED, is_encoded
from adk_confirm.runtime.run.runner import Runner
from adk_confirm.runtime.run.sequencer import Run
from adk_confirm.runtime.tool import Toolset
from adk_confirm.runtime.wire import SessionRecord, WireModel

log = logging.getLogger(__name__)

STOP_PATIENCE = 6.0  # seconds for running work; a whole stop then takes less than ten


def make_app(runners: Sequence[Runner], guard: Guard | None = None) -> web.Application:
    """The API for one or several apps, each under its runner's `app_name`. It opens and closes the runners."""
    guard = guard or Guard()
    api = Api(runners)
    app = web.Application(
        client_max_size=MOST_BYTES,
        middlewares=[
            error_middleware(guard),
            web.normalize_path_middleware(append_slash=False, remove_slash=True, merge_slashes=False),
        ],
    )
    app.add_routes([*api.routes(), *page_routes(api.runner)])

    async def add_cors_headers(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(cors_headers(guard, request))

    app.on_response_prepare.append(add_cors_headers)
    app.on_startup.append(api.start)
    app.on_shutdown.append(api.stop)
    return app


class Api:
    """The endpoints."""

    def __init__(self, runners: Iterable[Runner]) -> None:
        self._runners: dict[str, Runner] = {}
        for runner in runners:
            if runner.app_name in self._runners:
                raise Invalid(f"Two apps are called {runner.app_name!r}: an app's name is its agent's, so rename one.")
            if runner.is_desk:
                raise Invalid(f"The runner of {runner.app_name!r} is a desk's: give the API one of its own.")
            self._runners[runner.app_name] = runner
        self._attending: list[asyncio.Task[None]] = []
        self._stopping = False

    def routes(self) -> list[web.RouteDef]:
        session = "/apps/{app}/users/{user}/sessions/{session}"
        return [
            web.get("/health", self.health),
            web.get("/version", self.version),
            web.get("/openapi.json", self.openapi_json),
            web.get("/list-apps", self.list_apps),
            web.get("/apps/{app}/app-info", self.app_info),
            web.post("/apps/{app}/users/{user}/sessions", self.create_session),
            web.get("/apps/{app}/users/{user}/sessions", self.list_sessions),
            web.post(session, self.create_named_session),
            web.get(session, self.get_session),
            web.patch(session, self.update_session),
            web.delete(session, self.delete_session),
            web.get(session + "/calls", self.list_calls),
            web.post(session + "/calls/{call}", self.settle_call),
            web.post("/run", self.run),
            web.post("/run_sse", self.run_sse),
        ]

    def runner(self, app: str) -> Runner:
        """The app's runner. Raises `NotFound` if there is none, and `Busy` if the server is about to stop."""
        if self._stopping:
            raise Busy("The server is stopping; nothing was stored. Try again with the next one.")
        if app not in self._runners:
            raise NotFound(f"Agent not found: {app}")
        return self._runners[app]

    # Information

    async def health(self, _: web.Request) -> web.Response:
        return as_json({"status": "ok"})

    async def version(self, _: web.Request) -> web.Response:
        python = ".".join(str(number) for number in sys.version_info[:3])
        return as_json({"version": _version(), "language": "python", "language_version": python})

    async def openapi_json(self, _: web.Request) -> web.Response:
        return as_json(openapi(_version(), self.routes()))

    async def list_apps(self, request: web.Request) -> web.Response:
        names = sorted(self._runners)
        if request.query.get("detailed", "").lower() not in ("true", "1"):
            return as_json([*names])
        return as_json({"apps": [await app_info(self.runner(name), with_agents=False) for name in names]})

    async def app_info(self, request: web.Request) -> web.Response:
        return as_json(await app_info(self.runner(request.match_info["app"])))

    # Sessions

    async def create_session(self, request: web.Request) -> web.Response:
        runner, user = self._runner_and_user(request)
        body = await read_optional(request, CreateSessionRequest) or CreateSessionRequest()
        name = (body.session_id or "").strip()
        if name:
            check_id(name, "body", "sessionId")
        check_history(body.events or [])
        session = await runner.create_session(
            user_id=user, session_id=name or None, state=body.state, events=body.events or []
        )
        return as_model(session)

    async def create_named_session(self, request: web.Request) -> web.Response:
        runner, user, session_id = self._runner_and_session(request)
        state = await read_object(request)
        return as_model(await runner.create_session(user_id=user, session_id=session_id, state=state))

    async def list_sessions(self, request: web.Request) -> web.Response:
        runner, user = self._runner_and_user(request)
        return as_models(await runner.list_sessions(user_id=user))

    async def get_session(self, request: web.Request) -> web.Response:
        runner, user, session_id = self._runner_and_session(request)
        return as_model(await self._find_session(runner, user, session_id))

    async def update_session(self, request: web.Request) -> web.Response:
        runner, user, session_id = self._runner_and_session(request)
        body = await read_body(request, UpdateSessionRequest)
        return as_model(await runner.update_state(user_id=user, session_id=session_id, delta=body.state_delta))

    async def delete_session(self, request: web.Request) -> web.Response:
        runner, user, session_id = self._runner_and_session(request)
        if not await runner.delete_session(user_id=user, session_id=session_id):
            raise _no_session(session_id)
        return as_json(None)

    # Calls whose outcome is unknown: ours, not ADK's

    async def list_calls(self, request: web.Request) -> web.Response:
        runner, user, session_id = self._runner_and_session(request)
        await self._find_session(runner, user, session_id)
        return as_json([_held_call_json(call) for call in await runner.calls(user_id=user, session_id=session_id)])

    async def settle_call(self, request: web.Request) -> web.Response:
        """Takes what people say about a call that ran when its process died. The response is like that of `/run`."""
        runner, user, session_id = self._runner_and_session(request)
        call_id = check_id(request.match_info["call"], "path", "call_id")
        body = await read_body(request, SettleCallRequest)
        return await as_events(
            await runner.settle(
                user_id=user, session_id=session_id, call_id=call_id, word=body.word, attempt=body.attempt
            )
        )

    # Messages

    async def run(self, request: web.Request) -> web.Response:
        return await as_events(await self._start(await read_body(request, RunAgentRequest), streaming=False))

    async def run_sse(self, request: web.Request) -> web.StreamResponse:
        body = await read_body(request, RunAgentRequest)
        run = await self._start(body, streaming=body.streaming)
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
        )
        try:
            await response.prepare(request)
            async for line in as_lines(run):
                await response.write(line)
            await response.write_eof()
        except ConnectionResetError:
            log.info("a caller left session %s; its run goes on", body.session_id)
        return response

    async def _start(self, body: RunAgentRequest, *, streaming: bool) -> Run:
        if body.app_name is None:
            raise Invalid("There is no appName: say which app should answer.")
        runner = self.runner(body.app_name)
        if body.new_message is not None:
            check_message(body.new_message)
        return await runner.start(
            user_id=check_id(body.user_id, "body", "userId"),
            session_id=check_id(body.session_id, "body", "sessionId"),
            message=body.new_message,
            state_delta=body.state_delta,
            custom_metadata=body.custom_metadata,
            invocation_id=check_id(body.invocation_id, "body", "invocationId") if body.invocation_id else None,
            streaming=streaming,
        )

    # Helpers

    def _runner_and_user(self, request: web.Request) -> tuple[Runner, str]:
        runner = self.runner(request.match_info["app"])
        return runner, check_id(request.match_info["user"], "path", "user_id")

    def _runner_and_session(self, request: web.Request) -> tuple[Runner, str, str]:
        runner, user = self._runner_and_user(request)
        return runner, user, check_id(request.match_info["session"], "path", "session_id")

    async def _find_session(self, runner: Runner, user: str, session_id: str) -> SessionRecord:
        session = await runner.get_session(user_id=user, session_id=session_id)
        if session is None:
            raise _no_session(session_id)
        return session

    # From start to stop

    async def start(self, _: web.Application) -> None:
        """Opens the runners, and starts to resume the runs of dead processes."""
        for runner in self._runners.values():
            await runner.open()
        self._attending = [asyncio.create_task(runner.attend()) for runner in self._runners.values()]

    async def stop(self, _: web.Application) -> None:
        self._stopping = True
        for task in self._attending:
            task.cancel()
        await asyncio.gather(*self._attending, return_exceptions=True)
        await asyncio.gather(*(runner.close(patience=STOP_PATIENCE) for runner in self._runners.values()))


# Answers: values and runs as JSON or as a stream, and errors as `{"detail": …}` with their status codes

CODES: tuple[tuple[type[ConfirmError], int], ...] = (
    (BadBody, 422),
    (Invalid, 400),
    (Unauthorized, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (Conflict, 409),
    (Busy, 503),
    (StoreError, 503),
)
"""The status code of each error. The first type that fits counts. Anything else is our own fault: 500."""


def as_json(value: Json, status: int = 200) -> web.Response:
    return web.json_response(text=json.dumps(value, ensure_ascii=False), status=status)


def as_model(value: WireModel) -> web.Response:
    return web.json_response(text=value.to_json())


def as_models(values: Iterable[WireModel]) -> web.Response:
    return web.json_response(text=f"[{','.join(value.to_json() for value in values)}]")


def error_middleware(guard: Guard) -> Middleware:
    """The outermost boundary: who may ask, and every error as `{"detail": …}` with its code."""

    @web.middleware
    async def handle(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            guard.check(request)
            if is_encoded(request):
                raise Invalid(NOT_ENCODED)
            return preflight(guard, request) or await handler(request)
        except ConfirmError as error:
            code = next((code for kind, code in CODES if isinstance(error, kind)), 500)
            if code >= 500:
                log.warning("answered with %d: %s", code, error)
            response = as_json({"detail": error.details if isinstance(error, BadBody) else str(error)}, code)
            if code == 401:
                response.headers["WWW-Authenticate"] = "Bearer"
            return response
        except web.HTTPRequestEntityTooLarge:
            return as_json({"detail": f"The body is too large: {MOST_BYTES:,} bytes are the most."}, 413)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return as_json({"detail": error.reason}, error.status)
        except ConnectionResetError:
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return as_json({"detail": "Internal Server Error: the server's log says more."}, 500)

    return handle


async def as_events(run: Run) -> web.Response:
    bodies = [event.to_json() async for event in run if not event.partial]
    return web.Response(text=f"[{','.join(bodies)}]", content_type="application/json")


async def as_lines(run: Run) -> AsyncIterator[bytes]:
    """The run as server-sent events. The status 200 is sent first, so an error that comes later is an event too."""
    try:
        async for event in run:
            yield f"data: {event.to_json()}\n\n".encode()
    except Exception as error:
        if not isinstance(error, ConfirmError):
            log.exception("a run failed")
        sentence = str(error) if isinstance(error, ConfirmError) else "The run failed: the server's log says more."
        yield f"data: {json.dumps({'error': sentence}, ensure_ascii=False)}\n\n".encode()


def _held_call_json(call: Call) -> Json:
    """A call as a client sees it."""
    asked = call.request
    shown: dict[str, Json] = {
        "id": call.id,
        "name": call.tool,
        "args": {name: value for name, value in call.args.items() if name not in call.defaults},
        "runArgs": call.amended,
        "defaults": call.run_defaults or None,
        "state": call.state.value,
        "since": call.since,
        "attempt": call.attempt,
        "author": call.agent,
        "invocationId": call.invocation_id,
        "requestId": asked.request_id if asked else None,
        "hint": asked.hint if asked else None,
        "reason": call.reason,
        "response": call.result if call.settled else None,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _no_session(session_id: str) -> NotFound:
    return NotFound(f"Session not found: {session_id}")


def _version() -> str:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version("adk-confirm")
    return "0"


_BODIES: dict[str, type[WireModel]] = {
    "run": RunAgentRequest,
    "run_sse": RunAgentRequest,
    "create_session": CreateSessionRequest,
    "update_session": UpdateSessionRequest,
    "settle_call": SettleCallRequest,
}
"""The bodies that handlers read, by the handler's name."""


def openapi(version: str, routes: Iterable[web.RouteDef]) -> JsonObject:
    """Paths, their parameters and bodies. The responses are ADK's and are documented there."""
    models = [(model, "validation") for model in dict.fromkeys(_BODIES.values())]
    _, described = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]  # its mode is a literal
    paths: dict[str, JsonObject] = {}
    for route in routes:
        names = [step[1:-1] for step in route.path.split("/") if step.startswith("{")]
        path: list[Json] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
        operation: JsonObject = {"parameters": path, "responses": {"200": {"description": "Successful Response"}}}
        if body := _BODIES.get(route.handler.__name__):
            schema: JsonObject = {"$ref": f"#/components/schemas/{body.__name__}"}
            operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": OUR_API, "version": version},
        "paths": {**paths},
        "components": {"schemas": described["$defs"]},
    }


# What ADK's browser page needs besides a conversation: the parts of an app, and developer tools. We have no such tools:
# evaluations, traces, YAML builder. What the page asks of them while people talk is answered with nothing.

_NOTHING: tuple[tuple[str, Json], ...] = (
    ("/config/telemetry", {"telemetry": False}),
    ("/dev/apps/{app}/build_graph_image", {}),
    ("/dev/apps/{app}/debug/trace/session/{session}", []),
    ("/dev/apps/{app}/eval_results", []),
    ("/dev/apps/{app}/eval_sets", []),
)


def page_routes(runner_of: Callable[[str], Runner]) -> list[web.RouteDef]:
    """The routes for ADK's page. `runner_of` raises `NotFound` for an app that is not here."""

    async def structure(request: web.Request) -> web.Response:
        root = runner_of(request.match_info["app"]).agent
        shown: JsonObject = {"name": request.match_info["app"], "root_agent": _node(root)}
        # Resumable as ADK means it: an answer continues what asked, and the model waits for all answers of a turn.
        return as_json({**shown, "resumability_config": {"is_resumable": True}})

    async def no_yaml(request: web.Request) -> web.Response:
        runner_of(request.match_info["app"])
        return web.Response(text="")

    return [
        *(web.get(path, _value_endpoint(value, runner_of)) for path, value in _NOTHING),
        web.get("/dev/apps/{app}/build_graph", structure),
        web.get("/dev/apps/{app}/builder", no_yaml),
    ]


async def app_info(runner: Runner, *, with_agents: bool = True) -> JsonObject:
    """The description of an app, in ADK's form."""
    root = runner.agent
    info: JsonObject = {
        "name": runner.app_name,
        "rootAgentName": root.name,
        "description": root.description,
        "language": "python",
        "isComputerUse": False,
    }
    if with_agents:
        info["agents"] = {agent.name: await _agent_info(agent) for agent in root.walk()}
    return info


async def _agent_info(agent: Agent) -> JsonObject:
    tools: list[Json] = []
    for item in agent.tools:
        for tool in await item.tools() if isinstance(item, Toolset) else [item]:
            declaration = tool.declaration
            declared: JsonObject = {
                "name": declaration.name,
                "description": declaration.description,
                "parametersJsonSchema": declaration.schema,
            }
            tools.append({"functionDeclarations": [declared]})
    given = agent.instruction
    made_each_run = f"<InstructionProvider: {getattr(given, '__name__', type(given).__name__)}>"
    return {
        "name": agent.name,
        "description": agent.description,
        "instruction": given if isinstance(given, str) else made_each_run,
        "tools": tools,
        "subAgents": [child.name for child in agent.sub_agents],
    }


def _node(agent: Agent) -> JsonObject:
    return {
        "name": agent.name,
        "description": agent.description,
        "type": "agent",
        "sub_agents": [_node(child) for child in agent.sub_agents],
    }


def _value_endpoint(value: Json, runner_of: Callable[[str], Runner]) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        if "app" in request.match_info:
            runner_of(request.match_info["app"])
        return as_json(value)

    return answer
