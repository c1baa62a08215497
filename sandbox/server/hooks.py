"""Response URLs: five answers within thirty minutes, to the person who acted or into the channel."""

from __future__ import annotations

import json

from aiohttp import web

from adk_confirm.sandbox.blockkit.limits import check_blocks, check_text
from adk_confirm.sandbox.people.gestures import Gestures
from adk_confirm.sandbox.reading import Json, JsonObject, as_object, as_text
from adk_confirm.sandbox.refusals import ApiRefusal, NotFound
from adk_confirm.sandbox.server.faults import Faults
from adk_confirm.sandbox.server.misbehaving import misbehave
from adk_confirm.sandbox.workspace.tickets import Hook
from adk_confirm.sandbox.workspace.workspace import Workspace


class Hooks:
    def __init__(self, workspace: Workspace, gestures: Gestures, faults: Faults) -> None:
        self._workspace = workspace
        self._gestures = gestures
        self._faults = faults
        self.used: list[JsonObject] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        try:
            body: Json = json.loads(await request.text())
        except ValueError:
            return web.Response(status=400, text="invalid_payload")
        payload = as_object(body)
        self.used.append(payload)
        secret = request.match_info["secret"]
        fault = self._faults.take("response_url", payload)
        try:
            if fault is not None:
                return await misbehave(fault, request, lambda: self._use(secret, payload))
            return self._use(secret, payload)
        except ApiRefusal as refused:
            status = refused.status if refused.status != 200 else 400
            return web.json_response(refused.body(), status=status, headers=refused.headers)

    def _use(self, secret: str, payload: JsonObject) -> web.Response:
        self._answer(self._workspace.tickets.use(secret), payload)
        return web.Response(text="ok")

    def _answer(self, hook: Hook, payload: JsonObject) -> None:
        if payload.get("delete_original") is True or payload.get("replace_original") is True:
            self._change(hook, payload)
            return
        thread_ts = as_text(payload.get("thread_ts")) or hook.thread_ts
        self._gestures.respond(hook.channel_id, hook.user, payload, thread_ts)

    def _change(self, hook: Hook, payload: JsonObject) -> None:
        channel = self._workspace.directory.channel(hook.channel_id)
        try:
            message = self._workspace.messages.find(hook.channel_id, hook.message_ts)
        except NotFound as error:
            raise ApiRefusal("message_not_found", status=404) from error
        if payload.get("delete_original") is True:
            self._workspace.messages.delete(channel, message)
            return
        text = check_text(as_text(payload.get("text")), updating=True)
        blocks = check_blocks(payload.get("blocks") or [])
        if not text and not blocks:
            raise ApiRefusal("no_text", status=400)
        self._workspace.messages.edit(channel, message, message.user, text=text, blocks=blocks)
