"""`/api/{method}`: checks the token, the limits and the faults, then runs the method."""

from __future__ import annotations

import functools
from collections.abc import Callable

from aiohttp import web

from adk_confirm.sandbox.methods import access, agents, chat, conversations, people, streams, views
from adk_confirm.sandbox.methods.call import Args, Call, CallRecord, Methods
from adk_confirm.sandbox.reading import JsonObject
from adk_confirm.sandbox.refusals import ApiRefusal
from adk_confirm.sandbox.server.api_request import ApiRequest, read
from adk_confirm.sandbox.server.faults import Faults
from adk_confirm.sandbox.server.misbehaving import misbehave
from adk_confirm.sandbox.server.rates import Rates
from adk_confirm.sandbox.workspace.records import Install
from adk_confirm.sandbox.workspace.workspace import Workspace

METHODS: Methods = {
    **chat.METHODS,
    **conversations.METHODS,
    **people.METHODS,
    **views.METHODS,
    **access.METHODS,
    **streams.METHODS,
    **agents.METHODS,
}
Emit = Callable[[Install, JsonObject], None]
OpenSocket = Callable[[], str]


class WebApi:
    def __init__(self, workspace: Workspace, emit: Emit, open_socket: OpenSocket) -> None:
        self._workspace = workspace
        self._emit = emit
        self._open_socket = open_socket
        self.faults = Faults()
        self.rates = Rates()
        self.calls: list[CallRecord] = []
        self.base = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        made = CallRecord(request.match_info["method"], {}, self._workspace.clock.now())
        self.calls.append(made)
        try:
            asked = await read(request)
            made.args = asked.args
            made.team_id = self._team_of(asked.token)
            fault = self.faults.take(made.method, asked.args)
            if fault is not None:
                made.fault = fault.kind
                response = await misbehave(fault, request, functools.partial(self._answer, made, asked))
                made.status = 0 if fault.kind == "cut" else response.status
                return response
            return self._answer(made, asked)
        except ApiRefusal as refused:
            return _refusal(made, refused)
        finally:
            self._workspace.changes.tell("call", team=made.team_id)

    def _answer(self, made: CallRecord, asked: ApiRequest) -> web.Response:
        try:
            made.answer = self._run(made.method, asked)
        except ApiRefusal as refused:
            return _refusal(made, refused)
        made.status, made.acted = 200, True
        self._workspace.changes.tell("call", team=made.team_id)
        return web.json_response(made.answer, headers=self._scopes(asked.token))

    def _run(self, name: str, asked: ApiRequest) -> JsonObject:
        if name == "apps.connections.open":
            return self._open_connection(asked)
        method = METHODS.get(name)
        if method is None:
            raise ApiRefusal("unknown_method", extra={"req_method": name})
        call = Call(self._workspace, Args(asked.args), self._install(asked.token), self.base, self._emit)
        if method.scope:
            call.need(method.scope)
        self.rates.check(name, method.per_minute, call.install.team_id, call.now)
        if name == "chat.postMessage":
            self.rates.check_post(call.args.text("channel"), call.now)
        return method.run(call)

    def _open_connection(self, asked: ApiRequest) -> JsonObject:
        if not asked.token:
            raise ApiRefusal("not_authed")
        if asked.token in self._workspace.directory.installs:
            raise ApiRefusal("not_allowed_token_type")
        if asked.token != self._workspace.app.app_token:
            raise ApiRefusal("invalid_auth")
        return {"ok": True, "url": self._open_socket()}

    def _install(self, token: str) -> Install:
        if not token:
            raise ApiRefusal("not_authed")
        if token == self._workspace.app.app_token:
            raise ApiRefusal("not_allowed_token_type")
        install = self._workspace.directory.installs.get(token)
        if install is None:
            raise ApiRefusal("invalid_auth")
        if install.revoked:
            raise ApiRefusal("token_revoked")
        return install

    def _team_of(self, token: str) -> str:
        install = self._workspace.directory.installs.get(token)
        return install.team_id if install else ""

    def _scopes(self, token: str) -> dict[str, str]:
        install = self._workspace.directory.installs.get(token)
        return {"x-oauth-scopes": ",".join(sorted(install.scopes))} if install else {}


def _refusal(made: CallRecord, refused: ApiRefusal) -> web.Response:
    made.status, made.answer = refused.status, refused.body()
    return web.json_response(made.answer, status=refused.status, headers=refused.headers)
