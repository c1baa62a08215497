"""The door's HTTP API. It only translates: what is asked and decided is in `asks.py` and in the product behind it.

Its form is that of OpenID AuthZEN's access request and approval profile. Each error is `{"error": {"code", "message"}}`
with a sentence. A caller sees its own asks only.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Annotated, Literal
from uuid import NAMESPACE_URL, uuid5

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from pydantic import AfterValidator, ConfigDict, Field

from adk_confirm.blocks.click_ids import SaidMark
from adk_confirm.blocks.notices import notice_message
from adk_confirm.bot.audit.ledger import stamp
from adk_confirm.bot.config.settings import CallerSettings, DoorSettings, Rules
from adk_confirm.bot.confirmation.confirmation import DOOR, VoteKind
from adk_confirm.bot.confirmation.shown import approved_by
from adk_confirm.bot.confirmation.stored_json import check_json
from adk_confirm.bot.door import asks
from adk_confirm.bot.door.asks import Ask, AskMessage, AskState, TooMany
from adk_confirm.bot.door.host import LOOK_AGAIN, DoorHost
from adk_confirm.bot.door.permit import digest, jcs
from adk_confirm.bot.policy.approvers import Person, caller
from adk_confirm.bot.policy.durations import parse_duration
from adk_confirm.bot.slack.calls import Slack
from adk_confirm.bot.slack.rate_limits import MINUTE, Limiter
from adk_confirm.bot.slack.troubles import Later, SlackTrouble
from adk_confirm.bot.store.ledger_rows import LINES
from adk_confirm.bot.store.repository import chain_of
from adk_confirm.bot.telemetry.metrics import Metrics
from adk_confirm.bot.worker.supervision import LAST_REQUESTS, Shutdown, StopDeadline
from adk_confirm.runtime.errors import Busy, ConfirmError, Conflict, Forbidden, Invalid, NotFound
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, canonical
from adk_confirm.runtime.rest.bodies import read_body
from adk_confirm.runtime.rest.endpoints import CODES
from adk_confirm.runtime.rest.guard import SHORTEST, Unauthorized, bearer_in
from adk_confirm.runtime.rest.listening import NOT_ENCODED, CannotServe, Served, is_encoded, listen
from adk_confirm.runtime.tool import Tool, bind, checked
from adk_confirm.runtime.wire import REQUEST_NAMES, WireModel

log = logging.getLogger(__name__)

MOST_BYTES = 1 << 20
LONGEST_WAIT = 50.0
"""Seconds: programs and proxies give up after a minute."""
MOST_AT_ONCE = 100
"""Requests of one caller that are not answered yet."""
REQUESTS = 1200
"""Requests of one caller in a minute, besides its own limit of asks."""
TO_BEGIN = 20.0
"""Seconds that a claim waits for its permit."""
_HOOK_WAITS, _MOST_ALIKE = 45.0, 200
"""Seconds that a hook waits for people, unless it asks for others, and how often a session may make the same call."""
_ASKED = (
    "People are asked about this call in Slack, and it has not run. Once they have approved it, make the same call "
    "again. Do not do it in another way."
)
CALLER = web.RequestKey("caller", CallerSettings)


# What callers send


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must have no invisible characters")
    return text


def _checked(value: JsonObject) -> JsonObject:
    check_json(value, "It")
    jcs(value)
    return value


_Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
_Object = Annotated[JsonObject, AfterValidator(_checked)]


class Body(WireModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class AskBody(Body):
    tool: _Name
    arguments: _Object = Field(default_factory=dict)
    reason: Annotated[str, Field(max_length=300)] = ""
    preview: Annotated[str, Field(max_length=20_000)] = ""

    @property
    def text(self) -> str:
        """The ask as it is stored."""
        return canonical(self.model_dump(exclude_defaults=True) | {"arguments": self.arguments})


class ClaimBody(Body):
    """`claim`: a random text that only this claimant has."""

    claim: Annotated[str, Field(min_length=16, max_length=200), AfterValidator(_printable)]


class ResultBody(ClaimBody):
    status: Literal["done", "failed"]
    result: _Object = Field(default_factory=dict)


class HookBody(WireModel):
    """What a PreToolUse hook of Claude Code sends, as far as it is read."""

    hook_event_name: Literal["PreToolUse"]
    session_id: str
    tool_name: _Name
    tool_input: _Object
    cwd: str = ""


class DoorApi:
    """The door's routes, and what each does. `host` has the tools that run here."""

    def __init__(
        self, settings: DoorSettings, host: DoorHost, slack: Slack, team: str, rules: Rules, metrics: Metrics
    ) -> None:
        self._settings, self._host, self._slack, self._team = settings, host, slack, team
        self._database, self._rules, self._metrics, self._limiter = host.database, rules, metrics, Limiter()
        tokens = {one.name: os.environ.get(one.token_env, "").strip() for one in settings.caller}
        for name, token in tokens.items():
            if len(token) < SHORTEST:
                least = f"at least {SHORTEST} characters: openssl rand -hex 32"
                raise CannotServe(f"The token of the caller {name} must have {least}")
        if len({*tokens.values()}) < len(tokens):
            raise CannotServe("Two callers have the same token: a caller is known by its token, so give each its own.")
        self._tokens = {name: _hashed(token) for name, token in tokens.items()}
        self._asking = {name: asyncio.Lock() for name in tokens}
        self._at_once = {name: asyncio.Semaphore(MOST_AT_ONCE) for name in tokens}

    async def serve(self, stack: AsyncExitStack, stop: Shutdown) -> str:
        """Takes requests of callers from now on. Returns the address."""
        site, one = (
            web.Application(client_max_size=MOST_BYTES, middlewares=[self._let_in]),
            "/v1/asks/{ask:[0-9a-f]{32}}",
        )
        site.add_routes(
            [
                web.post("/v1/asks", self.ask),
                web.get(one, self.look),
                web.post(f"{one}/claim", self.claim),
                web.post(f"{one}/result", self.result),
                web.post(f"{one}/cancel", self.cancel),
                web.get("/v1/tools", self.tools),
                web.post("/v1/hooks/claude-code", self.hook),
            ]
        )
        served = Served(site, shutdown_timeout=LAST_REQUESTS)
        await served.setup()
        stack.push_async_callback(stop.close_part, "the door", served.cleanup, StopDeadline.REQUESTS)
        return await listen(served, self._settings.host, self._settings.port, "[door] listen")

    # Who comes in, and every error

    @web.middleware
    async def _let_in(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            request[CALLER] = self._caller(request)
            self._take(name := request[CALLER].name, "requests", REQUESTS)
            if is_encoded(request):
                raise Invalid(NOT_ENCODED)
            if handler in (self.result, self.cancel):  # these wait for nobody, and are always heard
                return await handler(request)
            if self._at_once[name].locked():
                raise TooMany(f"{name} has {MOST_AT_ONCE} requests here that are not answered. End some of them.")
            async with self._at_once[name]:
                return await handler(request)
        except ConfirmError as error:
            status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
            response = _error(status, str(error))
            if isinstance(error, TooMany):
                self._metrics.refused_at_door(request[CALLER].name)
            if isinstance(error, TooMany | Later):
                response.headers[hdrs.RETRY_AFTER] = f"{max(1.0, error.after):.0f}"
            return response
        except web.HTTPRequestEntityTooLarge:
            return _error(413, f"The body is too large: {MOST_BYTES:,} bytes are the most.")
        except web.HTTPException as error:
            return _error(error.status, f"{error.reason}.")
        except ConnectionResetError:
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return _error(500, "It failed here: the bot's log says why. Ask again with the same key.")

    def _caller(self, request: web.Request) -> CallerSettings:
        hashed = _hashed(bearer_in(request.headers))
        fitting = [name for name, token in self._tokens.items() if hmac.compare_digest(token, hashed)]
        found = self._settings.named(fitting[0]) if fitting else None
        if found is None:
            raise Unauthorized("Send the header 'Authorization: Bearer …' with the token of a caller of this door.")
        return found

    def _take(self, name: str, what: str, most: int) -> None:
        try:
            self._limiter.take(what, [((name, what), most, MINUTE)])
        except Later as later:
            raise TooMany(f"{name} may send {most} {what} a minute. Come back later.", later.after) from None

    # Asking and looking

    async def ask(self, request: web.Request) -> web.Response:
        by, key, wait = request[CALLER], request.headers.get("Idempotency-Key", ""), _wait(request)
        if not 0 < len(key) <= 200 or not key.isprintable():
            raise Invalid("Send an Idempotency-Key of 1 to 200 characters: with the same key, an ask is sent once.")
        ask = await self.store(by, key, await read_body(request, AskBody))
        return await self._respond(ask, *wait, asked=True)

    async def store(self, by: CallerSettings, key: str, body: AskBody) -> Ask:
        """The ask of this key: as it is stored, or stored now with a thread of its own."""
        id_ = self._id(by, key)
        async with self._asking[by.name]:
            ask = await self._find(by, id_) or await self._begin(by, id_, body)
        if ask.text != body.text:
            raise Conflict("There is another ask with this Idempotency-Key. Use a new key for a new ask.")
        return ask

    def _id(self, by: CallerSettings, key: str) -> str:
        return uuid5(NAMESPACE_URL, canonical([self._team, by.name, key])).hex

    async def _find(self, by: CallerSettings, ask: str) -> Ask | None:
        return await self._database.read(asks.find_ask, self._team, by.name, ask)

    async def _begin(self, by: CallerSettings, id_: str, body: AskBody) -> Ask:
        """Posts the message with which the ask's thread begins, and stores the ask. If an earlier try may have posted
        that message, it is looked for first. If nobody is asked, nothing is posted."""
        if body.tool in REQUEST_NAMES or not by.may_ask(body.tool):
            raise Forbidden(f"{by.name} may not ask for {body.tool}. The settings say for what: {', '.join(by.tools)}.")
        tool: Tool | None = None
        if self._host.runs(body.tool):
            tool = own = (await self._host.tools(body.tool)).get(body.tool)
            if own is None:
                gone = f"There is no tool {body.tool}, or its server can't be reached now. GET /v1/tools lists them."
                raise NotFound(gone)
            await checked(lambda: bind(own, body.arguments), body.tool, TO_BEGIN)
        message = AskMessage(
            app=DOOR,
            team=self._team,
            channel=by.channel,
            thread_ts="",
            ts=asks.ASK,
            person=caller(by.name) if by.asker is None else Person(self._team, by.asker.value),
            text=body.text,
            caller=by.name,
            ask=id_,
        )
        if tool is None or tool.may_ask:
            self._take(by.name, "asks", by.per_minute)
        since = await self._database.run(asks.make_room, message, by.waiting)
        if tool is None or tool.may_ask:
            mark = SaidMark(chain_of(message.session), asks.ASK, 0).metadata()
            said = replace(notice_message(f"{by.name} asks for approval."), metadata=mark)
            message = replace(message, thread_ts=await self._slack.post(by.channel, said, sure=not since, since=since))
        try:
            ask = await self._database.run(asks.store_ask, message, by.waiting)
        except TooMany:  # meanwhile another replica stored the caller's last permitted ask
            await self._slack.delete(by.channel, message.thread_ts)
            raise
        if ask.session.thread_ts != message.thread_ts:  # another replica stored this very ask first
            await self._slack.delete(by.channel, message.thread_ts)
        return ask

    async def look(self, request: web.Request) -> web.Response:
        return await self._respond(await self._own(request), *_wait(request))

    async def _own(self, request: web.Request) -> Ask:
        found = await self._find(request[CALLER], request.match_info["ask"])
        if found is None:
            raise NotFound(f"{request[CALLER].name} has no such ask.")
        return found

    async def _respond(self, ask: Ask, seconds: float, to_the_end: bool, *, asked: bool = False) -> web.Response:
        state = await self._wait_for(ask, seconds, lambda now: now.over if to_the_end else now.decided)
        response = web.json_response(_as_json(state), status=202 if asked and not state.decided else 200)
        response.headers[hdrs.LOCATION] = f"/v1/asks/{ask.id}"
        return response

    async def _wait_for(self, ask: Ask, seconds: float, enough: Callable[[AskState], bool]) -> AskState:
        """The ask's state as soon as `enough` is true of it, or after this time."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        with self._database.waiter(LINES, asks.topic(ask.key)) as waiter:
            while True:
                state = await self._database.read(asks.read_state, ask)
                if enough(state) or (left := until - clock()) <= 0:
                    return state
                await waiter.wait(min(left, LOOK_AGAIN))

    # Claiming and reporting

    async def claim(self, request: web.Request) -> web.Response:
        ask, body = await self._own(request), await read_body(request, ClaimBody)
        if self._host.runs(ask.tool):
            raise Conflict("The bot runs it once it is approved. Wait until it is over.")
        state, permit = await self.permit(ask, body.claim)
        return web.json_response({**permit, "task": _as_json(state)["task"]})

    async def permit(self, ask: Ask, claimant: str) -> tuple[AskState, JsonObject]:
        """Claims an approved call, and waits until its start is stored."""
        attempt = await self._database.run(asks.claim, ask, claimant)
        state = await self._wait_for(ask, TO_BEGIN, lambda now: bool(now.permit) or now.status != "approved")
        if state.status != "approved":
            raise Conflict(f"It did not begin, and must not run: {state.why or state.status}")
        if state.permit is None or state.permit["attempt"] != attempt:
            raise Busy("It is claimed, and has not begun yet: runs may be paused. Send the same claim again.")
        return state, state.permit

    async def result(self, request: web.Request) -> web.Response:
        ask, body = await self._own(request), await read_body(request, ResultBody)
        if not await self._database.run(asks.report, ask, body.claim, body.status == "done", body.result):
            raise Conflict("No report came in time, so people are asked what became of it. The thread has yours now.")
        return await self._respond(ask, 0.0, False)

    async def cancel(self, request: web.Request) -> web.Response:
        ask = await self._own(request)
        await self._database.run(asks.cancel, ask, self._rules.policies)
        return await self._respond(ask, 0.0, False)

    async def tools(self, request: web.Request) -> web.Response:
        """Lists the tools that run here and that the caller may ask for."""
        found = [tool for tool in (await self._host.tools()).values() if request[CALLER].may_ask(tool.name)]
        listed: list[Json] = [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.schema, "asks": tool.may_ask}
            for tool in found
        ]
        return web.json_response({"tools": listed})

    # A hook of coding agents

    async def hook(self, request: web.Request) -> web.Response:
        """Answers a PreToolUse hook: whether this call may run now. An approval that comes later is good for one such
        call of the same session. Of tools that the caller may not ask for, the coding agent decides itself."""
        by, body, (wait, _) = request[CALLER], await read_body(request, HookBody), _wait(request)
        if not by.may_ask(body.tool_name) or self._host.runs(body.tool_name):
            return web.json_response({})
        why = f"In {body.cwd}"[:300] if body.cwd else ""
        call = AskBody(tool=body.tool_name, arguments=body.tool_input, reason=why)
        words = {"description"} if call.tool == "Bash" else ()  # the agent words it anew each time
        same = {name: value for name, value in call.arguments.items() if name not in words}
        about = digest([body.session_id, call.tool, same])
        for number in range(_MOST_ALIKE):
            key = f"claude-code {about} {number}"
            known = await self._find(by, self._id(by, key))
            ask = known or await self.store(by, key, call)
            state = await self._wait_for(ask, wait or _HOOK_WAITS, lambda now: now.decided)
            if state.status == "denied" or (state.over and known is None):
                return _hooked("deny", state.why or f"It is {state.status}.")
            if not state.decided:
                return _hooked("deny", _ASKED)
            if state.can_begin:
                try:
                    _, permit = await self.permit(ask, claim := secrets.token_urlsafe(24))
                except Conflict:  # another such call was faster
                    continue
                await self._database.run(asks.report, ask, claim, True, {"handed to": "the coding agent"})
                return _hooked("allow", "Approved in Slack.", as_object(permit["arguments"]))
        raise TooMany("The same call was made too often in this session.")


def _hooked(decision: str, why: str, arguments: JsonObject | None = None) -> web.Response:
    said: JsonObject = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": why}
    if arguments is not None:
        said["updatedInput"] = arguments
    return web.json_response({"hookSpecificOutput": said})


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


_STATUS = ((TooMany, 429), (SlackTrouble, 503), (Invalid, 400), *CODES)
_CODES = {400: "invalid", 401: "unauthorized", 403: "forbidden", 404: "not_found", 409: "conflict"} | {
    413: "too_large",
    429: "too_many",
    503: "busy",
}


def _error(status: int, sentence: str) -> web.Response:
    response = web.json_response({"error": {"code": _CODES.get(status, "failed"), "message": sentence}}, status=status)
    if status == 401:
        response.headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
    return response


def _wait(request: web.Request) -> tuple[float, bool]:
    """For how many seconds the request waits, and whether for the end of the call or only for the decision."""
    given, until = request.query.get("wait"), request.query.get("until", "decided")
    if until not in ("decided", "over"):
        raise Invalid('until must be "decided" or "over".')
    try:
        return min(LONGEST_WAIT, parse_duration(given).total_seconds()) if given else 0.0, until == "over"
    except ValueError as error:
        raise Invalid(f"wait {error}.") from error


def _as_json(state: AskState) -> JsonObject:
    """An ask as its caller sees it."""
    ask, row, outcome = state.ask, state.row, state.outcome
    at = f"/v1/asks/{ask.id}"
    task: JsonObject = {
        "id": ask.id,
        "status": state.status,
        "over": state.over,
        "tool": ask.tool,
        "status_endpoint": at,
        "links": {name: f"{at}/{name}" for name in ("claim", "result", "cancel")},
        **({"reason": state.why} if state.why is not None else {}),
        **({"nobody_decides": True} if state.nobody else {}),
    }
    result: JsonObject = {"outcome": {"kind": str(outcome.kind), "text": outcome.text}} if outcome else {}
    if row is not None:
        task["expires_at"] = stamp(row.deadline)
        votes: Json = len(row.voters(VoteKind.APPROVE))
        task["progress"] = {"current_step": votes, "total_steps": row.policy.quorum}
    if row is not None and state.status == "approved":
        result["approval"] = {
            "id": row.id,
            "approved_at": stamp(row.decision.at) if row.decision else None,
            "approved_until": stamp(row.start_by) if row.start_by else None,
            "approved_by": [*approved_by(row)],
            "attempt": row.attempt,
            "revision": row.revision.number,
            "edited": canonical(row.revision.arguments) != canonical(ask.arguments),
        }
    return {"task": task, **({"result": result} if result else {})}
