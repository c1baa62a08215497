"""The local Slack with its page: a chat in the browser, in which a visitor can be each person in turn.

    async with Sandbox(App(…), port=3030, stage=Stage(roles={...}), observed=...) as slack:
        ...                                # `slack.base` is what to open

It is a `FakeSlack` in every other respect. It listens on loopback only, and is not for production.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path

from aiohttp import web
from pydantic import ValidationError

from adk_confirm.sandbox.page.guard import HEADERS, guarded
from adk_confirm.sandbox.page.page_gestures import GESTURES, GestureContext
from adk_confirm.sandbox.page.panel import Observed, PanelItems
from adk_confirm.sandbox.page.screen import Screen, Stage, sees
from adk_confirm.sandbox.reading import Json, JsonObject
from adk_confirm.sandbox.refusals import ApiRefusal, Forbidden, Invalid, NotFound, Refused
from adk_confirm.sandbox.server.server import FakeSlack
from adk_confirm.sandbox.workspace.records import User
from adk_confirm.sandbox.workspace.registration import App

_FOLDER = Path(__file__).parent / "assets"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_STATUS: dict[type[Refused], int] = {Forbidden: 403, NotFound: 404, Invalid: 400, ApiRefusal: 409}
_HEARTBEAT = 15.0
"""Seconds between two signs of life. A browser that went away is noticed when something is written to it."""
_COME_BACK_AFTER = 500
"""Milliseconds after which a browser that lost the connection tries again."""
_log = logging.getLogger(__name__)


class Sandbox(FakeSlack):
    """The local Slack, and its page under the same address."""

    def __init__(
        self,
        app: App,
        *,
        team: str = "Acme",
        port: int = 0,
        stage: Stage | None = None,
        observed: Observed | None = None,
    ) -> None:
        super().__init__(app, team=team, port=port)
        self.page = Page(self, observed, stage)

    def routes(self) -> web.Application:
        served = super().routes()
        self.page.add_to(served)
        return served


class Page:
    def __init__(self, slack: FakeSlack, observed: Observed | None = None, stage: Stage | None = None) -> None:
        self._slack = slack
        self._observed = observed
        self.stage = stage or Stage()
        """May be set again once people and channels have their ids; the page sees it when it is loaded."""
        self.items = PanelItems(slack.workspace, slack.calls, slack.deliveries)
        self._watching: set[asyncio.Task[None]] = set()
        self._files = {path.relative_to(_FOLDER).as_posix(): path for path in _FOLDER.rglob("*") if path.is_file()}

    def add_to(self, served: web.Application) -> None:
        """Adds the page to what an app talks to."""
        served.cleanup_ctx.append(self._open)
        for path in ("/", "/archives/{channel}/{message}"):
            served.router.add_get(path, guarded(self._index))
        served.router.add_get("/page/{file:.+}", guarded(self._file))
        served.router.add_get("/sandbox/feed", guarded(self._feed))
        served.router.add_get("/sandbox/items/{number:[0-9]{1,9}}", guarded(self._item))
        served.router.add_get("/sandbox/files/{id}", guarded(self._download))
        served.router.add_post("/sandbox/do/{gesture}", guarded(self._do))

    def watch(self, observed: Observed) -> asyncio.Task[None]:
        """Shows what happens inside the app from now on. For an app that starts after the sandbox."""
        return self._start(self.items.watch(observed))

    async def _open(self, _: web.Application) -> AsyncIterator[None]:
        _log.warning(
            "The sandbox is a local stand-in for Slack: whoever opens its page can act as anybody. Not for production."
        )
        self._start(self.items.watch_slack())
        if self._observed is not None:
            self.watch(self._observed)
        yield
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._watching.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._watching.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("The panel can't follow any more. It shows nothing new from here on.", exc_info=error)

    # The page's files

    async def _index(self, _: web.Request) -> web.Response:
        return self._static("index.html")

    async def _file(self, request: web.Request) -> web.Response:
        return self._static(request.match_info["file"])

    def _static(self, name: str) -> web.Response:
        path = self._files.get(name)
        if path is None or path.suffix not in _TYPES:
            raise web.HTTPNotFound
        return web.Response(body=path.read_bytes(), content_type=_TYPES[path.suffix], charset="utf-8")

    # What it shows

    async def _feed(self, request: web.Request) -> web.StreamResponse:
        """The whole screen of one person, then every change of it, as server-sent events.

        A browser may remember a person of an earlier sandbox. Then it gets the first person of this one.
        """
        people = [each for each in self._slack.workspace.directory.users.values() if _may_be(each)]
        if not people:
            return _refusal(404, "Nobody is here yet.")
        user = next((each for each in people if each.id == request.query.get("as")), people[0])
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionResetError):  # every feed ends when its browser goes away
            await self._tell(response, Screen(self._slack.workspace, user, self.stage))
        return response

    async def _tell(self, response: web.StreamResponse, screen: Screen) -> None:
        changes, items = self._slack.workspace.changes, self.items
        number, version, update = changes.number, items.version, screen.whole()
        update["items"] = [*items.since(0)]
        await response.write(f"retry: {_COME_BACK_AFTER}\n\n".encode())
        event = "screen"
        while True:
            if update:
                await response.write(f"event: {event}\ndata: {json.dumps(update)}\n\n".encode())
            elif not await _changed_in_time(changes.after(number), items.changes.after(version)):
                await response.write(b": still here\n\n")
            fresh, event = changes.since(number), "patch"
            if fresh and fresh[0].number > number + 1:  # more has happened than is kept
                update, event = screen.whole(), "screen"
            else:
                update = screen.after(fresh)
            if items.version > version:
                update["items"] = [*items.since(version)]
            number, version = changes.number, items.version

    async def _item(self, request: web.Request) -> web.Response:
        found = self.items.whole(int(request.match_info["number"]))
        if found is None:
            return _refusal(404, "This happened too long ago. The panel does not have it any more.")
        return web.json_response(found)

    async def _download(self, request: web.Request) -> web.Response:
        try:
            user = self._who(request.query.get("as", ""))
        except Refused as error:
            return _refusal(403, str(error))
        workspace = self._slack.workspace
        file = workspace.files.get(request.match_info["id"])
        if file is None or not sees(user, workspace.directory.channel(file.channel)):
            return _refusal(404, "There is no such file, or it was not shared with you.")
        return web.Response(body=file.content, content_type="text/plain", charset="utf-8")

    # What the visitor does

    async def _do(self, request: web.Request) -> web.Response:
        gesture = GESTURES.get(request.match_info["gesture"])
        if gesture is None:
            return _refusal(404, "There is no such gesture.")
        try:
            asked: Json = await request.json()
            if not isinstance(asked, dict):
                raise Invalid("A gesture is a JSON object.")
            context = GestureContext(self._slack, self._who(asked.pop("as", None)), self.stage.controls)
            return web.json_response(await gesture.model_validate(asked).perform(context))
        except json.JSONDecodeError:
            return _refusal(400, "This is not JSON.")
        except ValidationError as error:
            wrong = error.errors(include_url=False)[0]
            return _refusal(400, f"{'.'.join(map(str, wrong['loc'])) or 'It'}: {wrong['msg']}.")
        except Refused as error:
            return _refusal(_STATUS.get(type(error), 400), str(error))

    def _who(self, user_id: Json) -> User:
        """The person that the visitor acts as; never a bot."""
        people = self._slack.workspace.directory.users
        user = people.get(user_id) if isinstance(user_id, str) else None
        if user is None or not _may_be(user):
            raise NotFound("There is no person with this id here.")
        return user


def _may_be(user: User) -> bool:
    return not user.is_bot and not user.deleted


async def _changed_in_time(*waits: Coroutine[None, None, None]) -> bool:
    """True when one of them is done, False when nothing happened for the length of a heartbeat."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, timeout=_HEARTBEAT, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _refusal(status: int, sentence: str) -> web.Response:
    body: JsonObject = {"error": sentence}
    return web.json_response(body, status=status)
