"""Private downloads of files for whoever has a token."""

from __future__ import annotations

from aiohttp import web

from adk_confirm.sandbox.server.faults import Faults
from adk_confirm.sandbox.server.misbehaving import misbehave
from adk_confirm.sandbox.workspace.workspace import Workspace


class Storage:
    def __init__(self, workspace: Workspace, faults: Faults) -> None:
        self._workspace = workspace
        self._faults = faults

    async def download(self, request: web.Request) -> web.StreamResponse:
        fault = self._faults.take("download", {"file": request.match_info["file"]})
        if fault is not None:
            return await misbehave(fault, request, lambda: self._download(request))
        return self._download(request)

    def _download(self, request: web.Request) -> web.Response:
        team_id, _, file_id = request.match_info["file"].partition("-")
        file = self._workspace.files.get(file_id)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        install = self._workspace.directory.installs.get(token)
        if install is None or install.revoked or "files:read" not in install.scopes:
            return web.Response(text="<html>Sign in</html>", content_type="text/html")
        if file is None or file.team_id != team_id:
            return web.Response(status=404)
        return web.Response(body=file.content, content_type="text/plain")
