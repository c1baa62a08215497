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
from collections.abc import Mapping
from contextlib import AsyncExitStack
from fnmatch import fnmatchcase
from uuid import NAMESPACE_URL, uuid5

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from adk_confirm.blocks.click_ids import SaidMark
from adk_confirm.blocks.notices import notice_message
from adk_confirm.blocks.text import visible
from adk_confirm.bot.audit.ledger import stamp
from adk_confirm.bot.config.settings import CallerSettings, DoorSettings, Rules
from adk_confirm.bot.confirmation.model import DOOR, VoteKind
from adk_confirm.bot.confirmation.shown import approved_by
from adk_confirm.bot.confirmation.stored_json import check_json
from adk_confirm.bot.door import asks
from adk_confirm.bot.door.asks import Ask, AskMessage, AskState
from adk_confirm.bot.door.host import DoorHost
from adk_confirm.bot.door.permit import digest, jcs
from adk_confirm.bot.policy.approvers import Person, caller
from adk_confirm.bot.policy.durations import parse_duration
from adk_confirm.bot.slack.api import Slack
from adk_confirm.bot.slack.errors import Later, SlackTrouble
from adk_confirm.bot.slack.rate_limits import MINUTE, Limiter
from adk_confirm.bot.store.ledger_rows import LINES
from adk_confirm.bot.store.mailbox import store_message
from adk_confirm.bot.store.marks import begin_attempt
from adk_confirm.bot.store.repository import chain_of
from adk_confirm.bot.telemetry.metrics import Metrics
from adk_confirm.bot.worker.supervision import LAST_REQUESTS, Shutdown, StopDeadline
from adk_confirm.runtime.context import ToolContext
from adk_confirm.runtime.errors import Busy, ConfirmError, Conflict, Forbidden, Invalid, NotFound, StoreError
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, as_text, canonical
from adk_confirm.runtime.mcp.toolset import McpUnavailable, ToolFailed
from adk_confirm.runtime.rest.bodies import read_object
from adk_confirm.runtime.rest.guard import SHORTEST, Unauthorized
from adk_confirm.runtime.rest.listening import NOT_ENCODED, CannotServe, is_encoded, listen, server_for
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.tool import BadArguments, Tool, ToolOutcomeUnknown, bind, checked
from adk_confirm.runtime.wire import REQUEST_NAMES

log = logging.getLogger(__name__)

MOST_BYTES = 1 << 20
LONGEST_WAIT, LOOK_AGAIN = 50.0, 5.0
"""Seconds: programs and proxies give up after a minute."""
MOST_WAITING = 100
"""Requests of one caller that wait for an answer at the same time."""
REQUESTS = 1200
"""Requests of one caller in a minute, besides its own limit of asks."""
TO_BEGIN = 20.0
"""Seconds that a claim waits for its permit."""
_CONTEXT = ToolContext(
    agent_name=DOOR,
    invocation_id="",
    user_id="",
    session_id="",
    state={},
    function_call_id="",
    idempotency_key="",
)
"""For tools of servers, which do not look at it."""
_HOOK_WAITS, _MOST_ALIKE = 45.0, 200
"""Seconds that a hook waits for people, unless it says otherwise, and the most calls of a session that are alike."""
_ASKED = (
    "People are asked about this call in Slack, and it has not run. Once they have approved it, make the same call "
    "again. Do not do it in another way."
)
_LONGEST_KEY, _LONGEST_TOOL, _LONGEST_REASON, _LONGEST_PREVIEW = 200, 200, 300, 20_000


class TooMany(ConfirmError):
    """The caller has reached one of its limits."""

    def __init__(self, sentence: str, after: float = 5.0) -> None:
        super().__init__(sentence)
        self.after = after


CODES: tuple[tuple[type[ConfirmError], int, str], ...] = (
    (Invalid, 400, "invalid"),
    (BadArguments, 400, "invalid"),
    (Unauthorized, 401, "unauthorized"),
    (Forbidden, 403, "forbidden"),
    (NotFound, 404, "not_found"),
    (Conflict, 409, "conflict"),
    (TooMany, 429, "too_many"),
    (Busy, 503, "busy"),
    (StoreError, 503, "busy"),
    (SlackTrouble, 503, "slack"),
)
CALLER = web.RequestKey("caller", CallerSettings)


class DoorApi:
    """`tokens` are those of the callers, by their names. `host` has the tools that run here."""

    def __init__(
        self,
        settings: DoorSettings,
        tokens: Mapping[str, str],
        host: DoorHost,
        database: Database,
        slack: Slack,
        team: str,
        rules: Rules,
        metrics: Metrics,
    ) -> None:
        self._host = host
        self._settings, self._database, self._slack, self._team = settings, database, slack, team
        self._rules, self._metrics = rules, metrics
        self._tokens = {name: _hashed(token) for name, token in tokens.items()}
        self._limiter = Limiter()
        self._asking = {one.name: asyncio.Lock() for one in settings.caller}
        self._waiting = {one.name: asyncio.Semaphore(MOST_WAITING) for one in settings.caller}

    def site(self) -> web.Application:
        site = web.Application(client_max_size=MOST_BYTES, middlewares=[self._let_in])
        one = "/v1/asks/{ask}"
        site.add_routes(
            [
                web.post("/v1/asks", self.ask),
                web.get(one, self.look),
                web.post(f"{one}/claim", self.claim),
                web.post(f"{one}/result", self.result),
                web.post(f"{one}/cancel", self.cancel),
                web.get("/v1/tools", self.tools),
                web.post("/v1/calls", self.call),
                web.post("/v1/hooks/claude-code", self.hook),
            ]
        )
        return site

    # Who comes in, and every error

    @web.middleware
    async def _let_in(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            request[CALLER] = self._caller(request)
            self._take(request[CALLER].name, "requests", REQUESTS)
            if is_encoded(request):
                raise Invalid(NOT_ENCODED)
            return await handler(request)
        except ConfirmError as error:
            status, code = next(((at, code) for kind, at, code in CODES if isinstance(error, kind)), (500, "failed"))
            response = _refusal(status, code, str(error))
            if isinstance(error, TooMany | Later):
                response.headers[hdrs.RETRY_AFTER] = f"{max(1.0, error.after):.0f}"
            return response
        except web.HTTPRequestEntityTooLarge:
            return _refusal(413, "too_large", f"The body is too large: {MOST_BYTES:,} bytes are the most.")
        except web.HTTPException as error:
            return _refusal(error.status, "http", f"{error.reason}.")
        except ConnectionResetError:
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return _refusal(500, "failed", "It failed here: the bot's log says why. Ask again with the same key.")

    def _caller(self, request: web.Request) -> CallerSettings:
        kind, _, given = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        hashed = _hashed(given.strip())
        fitting = [name for name, token in self._tokens.items() if hmac.compare_digest(token, hashed)]
        found = self._settings.named(fitting[0]) if fitting and kind.lower() == "bearer" else None
        if found is None:
            raise Unauthorized("Send the header 'Authorization: Bearer …' with the token of a caller of this door.")
        return found

    def _take(self, name: str, what: str, most: int) -> None:
        try:
            self._limiter.take(what, [((name, what), most, MINUTE)])
        except Later as later:
            self._metrics.refused_at_door(name)
            raise TooMany(f"{name} may send {most} {what} a minute. Come back later.", later.after) from None

    # Asking and looking

    async def ask(self, request: web.Request) -> web.Response:
        by, key = request[CALLER], request.headers.get("Idempotency-Key", "")
        if not 0 < len(key) <= _LONGEST_KEY or not key.isprintable():
            raise Invalid(
                f"Send an Idempotency-Key of 1 to {_LONGEST_KEY} characters: with the same key, an ask is sent once."
            )
        wait, body = _wait(request), await read_object(request)
        text = _checked(body, by)
        if (own := await self._own_call(body)) is not None and not own[0].may_ask:
            raise Invalid(f"Nobody has to approve {own[0].name}: send it to /v1/calls.")
        return await self._answer(await self.store(by, key, text), wait, new=True)

    async def store(self, by: CallerSettings, key: str, text: str) -> Ask:
        """The ask of this key: as it is stored, or stored now with a thread of its own."""
        ask = self._id(by, key)
        async with self._asking[by.name]:
            found = await self._database.read(asks.find_ask, self._team, by.name, ask)
            if found is None:
                self._take(by.name, "asks", by.per_minute)
                if await self._database.read(asks.count_open, self._team, by.name) >= by.waiting:
                    self._metrics.refused_at_door(by.name)
                    raise TooMany(f"{by.name} may have {by.waiting} asks open at once. Wait until one is over.")
                found = await self._begin(by, ask, text)
        if found.text != text:
            raise Conflict("There is another ask with this Idempotency-Key. Use a new key for a new ask.")
        return found

    def _id(self, by: CallerSettings, key: str) -> str:
        return uuid5(NAMESPACE_URL, canonical([self._team, by.name, key])).hex

    async def _begin(self, by: CallerSettings, ask: str, text: str) -> Ask:
        """Posts the message with which the thread begins, and stores the ask in it. If an earlier try may have posted
        it, it is looked for."""
        who = caller(by.name) if by.asker is None else Person(self._team, by.asker.value)
        message = AskMessage(
            app=DOOR,
            team=self._team,
            channel=by.channel,
            thread_ts="",
            ts=asks.ASK,
            person=who,
            text=text,
            caller=by.name,
            ask=ask,
        )
        key = chain_of(message.session)
        said = notice_message(f"{by.name} asks for approval.")
        said = type(said)(said.text, said.blocks, SaidMark(key, asks.ASK, 0).metadata())
        since = await self._database.run(begin_attempt, key, asks.ASK)
        thread = await self._slack.post(by.channel, said, sure=since is None, since=since)
        await self._database.run(store_message, AskMessage(**{**vars(message), "thread_ts": thread}))
        found = await self._database.read(asks.find_ask, self._team, by.name, ask)
        if found is None:
            raise Busy("The ask could not be stored. Ask again with the same key.")
        if found.session.thread_ts != thread:  # another replica was faster
            await self._slack.delete(by.channel, thread)
        return found

    async def look(self, request: web.Request) -> web.Response:
        return await self._answer(await self._own(request), _wait(request))

    async def _own(self, request: web.Request) -> Ask:
        by, ask = request[CALLER], request.match_info["ask"]
        found = await self._database.read(asks.find_ask, self._team, by.name, ask)
        if found is None:
            raise NotFound(f"{by.name} has no such ask.")
        return found

    async def _answer(self, ask: Ask, wait: tuple[float, bool], *, new: bool = False) -> web.Response:
        state = await self.wait_for(ask, *wait)
        status = 202 if new and not state.decided else 200
        response = web.json_response(_as_json(state), status=status)
        response.headers[hdrs.LOCATION] = f"/v1/asks/{ask.id}"
        return response

    async def wait_for(self, ask: Ask, seconds: float, to_the_end: bool = False) -> AskState:
        """What became of an ask, as soon as it is decided, or `to_the_end`, or after this time."""
        until = asyncio.get_running_loop().time() + seconds
        if self._waiting[ask.caller].locked():
            raise TooMany(f"{ask.caller} has {MOST_WAITING} requests that wait already. End some of them.")
        async with self._waiting[ask.caller]:
            with self._database.waiter(LINES, asks.topic(ask.session.key)) as waiter:
                while True:
                    now = await self._database.read(asks.read_ask, ask.session.key) or ask
                    state = await self._database.read(asks.read_state, now)
                    left = until - asyncio.get_running_loop().time()
                    if (state.over if to_the_end else state.decided) or left <= 0:
                        return state
                    await waiter.wait(min(left, LOOK_AGAIN))

    # Claiming and reporting

    async def claim(self, request: web.Request) -> web.Response:
        ask, claimant = await self._own(request), _claimant(await read_object(request))
        if self._host.runs(ask.tool):
            raise Conflict("It runs here by itself once it is approved. Wait until it is over.")
        return web.json_response(await self.permit(ask, claimant))

    async def permit(self, ask: Ask, claimant: str) -> JsonObject:
        """Claims an approved call, and waits until its start is stored."""
        attempt = await self._database.run(asks.claim, ask, claimant)
        until = asyncio.get_running_loop().time() + TO_BEGIN
        with self._database.waiter(LINES, asks.topic(ask.session.key)) as waiter:
            while True:
                permit, state = await self._database.read(asks.read_permit_of, ask, attempt)
                if permit is not None:
                    return {**permit, "attempt": attempt, "task": _as_json(state)["task"]}
                if state.status != "approved":
                    raise Conflict(f"It did not begin, and must not run: {state.why or state.status}")
                left = until - asyncio.get_running_loop().time()
                if left <= 0:
                    raise Busy("It is claimed, and has not begun yet: runs may be paused. Send the same claim again.")
                await waiter.wait(min(left, LOOK_AGAIN))

    # A hook of coding agents

    async def hook(self, request: web.Request) -> web.Response:
        """Answers a PreToolUse hook: whether this call may run now. An approval that comes later is good for one such
        call of the same session. Of tools that the caller may not ask for, the coding agent decides itself."""
        by, body, (wait, _) = request[CALLER], await read_object(request), _wait(request)
        tool, arguments = body.get("tool_name"), body.get("tool_input")
        if body.get("hook_event_name") != "PreToolUse" or not isinstance(tool, str) or not isinstance(arguments, dict):
            raise Invalid("This is no PreToolUse hook: it needs hook_event_name, tool_name and tool_input.")
        if not _may_ask(by, tool):
            return web.json_response({})
        where = as_text(body.get("cwd"))[: _LONGEST_REASON - 10]
        text = _checked({"tool": tool, "arguments": arguments, **({"reason": f"In {where}"} if where else {})}, by)
        about = digest([body.get("session_id"), tool, arguments])
        for number in range(_MOST_ALIKE):
            key = f"claude-code {about} {number}"
            known = await self._database.read(asks.find_ask, self._team, by.name, self._id(by, key))
            state = await self.wait_for(known or await self.store(by, key, text), wait or _HOOK_WAITS)
            if state.status == "denied" or (state.over and known is None):
                return _hooked("deny", state.why or f"It is {state.status}.")
            if not state.decided:
                return _hooked("deny", _ASKED)
            if not state.over and state.row is not None and state.row.outcome is None:
                try:
                    permit = await self.permit(state.ask, claim := secrets.token_urlsafe(24))
                except Conflict:  # another such call was faster
                    continue
                handed: JsonObject = {"handed to": "the coding agent"}
                await self._database.run(asks.report, state.ask, claim, True, handed)
                return _hooked("allow", "Approved in Slack.", as_object(permit["arguments"]))
        raise TooMany("The same call was made too often in this session.")

    # Tools that run here

    async def tools(self, request: web.Request) -> web.Response:
        by, found = request[CALLER], await self._host.tools()
        listed: list[Json] = [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.schema, "asks": tool.may_ask}
            for tool in found.values()
            if _may_ask(by, tool.name)
        ]
        return web.json_response({"tools": listed})

    async def _own_call(self, body: JsonObject) -> tuple[Tool, JsonObject] | None:
        """The tool that would run here, and what its server gets. None for a tool of a claimant."""
        name, arguments = as_text(body.get("tool")), as_object(body.get("arguments"))
        if not self._host.runs(name):
            return None
        tool: Tool | None = (await self._host.tools()).get(name)
        if tool is None:
            raise NotFound(f"There is no tool {name}, or its server can't be reached now. GET /v1/tools lists them.")
        return tool, (await checked(lambda: bind(tool, arguments), name, TO_BEGIN)).args

    async def call(self, request: web.Request) -> web.Response:
        """Runs a tool about which nobody is asked."""
        body = await read_object(request)
        _checked(body, request[CALLER])
        own = await self._own_call(body)
        if own is None or own[0].may_ask:
            raise Forbidden("People have to approve this call: send it to /v1/asks.")
        try:
            result = await own[0].run(own[1], _CONTEXT)
        except (ToolFailed, ToolOutcomeUnknown, McpUnavailable) as error:
            return web.json_response({"outcome": {"kind": "failed", "text": str(error)}})
        text = canonical(result if isinstance(result, dict) else {"result": result})
        return web.json_response({"outcome": {"kind": "done", "text": text}})

    async def result(self, request: web.Request) -> web.Response:
        ask, body = await self._own(request), await read_object(request)
        claimant, status = _claimant(body, "status", "result"), body.get("status")
        if status not in ("done", "failed"):
            raise Invalid('status must be "done" or "failed": what you say became of the call.')
        result = body.get("result", {})
        if not isinstance(result, dict):
            raise Invalid("result must be an object.")
        check_json(result, "The result")
        if not await self._database.run(asks.report, ask, claimant, status == "done", result):
            raise Conflict("No report came in time, so people are asked what became of it. The thread has yours now.")
        return await self._answer(ask, (0.0, False))

    async def cancel(self, request: web.Request) -> web.Response:
        ask = await self._own(request)
        await self._database.run(asks.cancel, ask, self._rules.policies)
        return await self._answer(ask, (0.0, False))


def _hooked(decision: str, why: str, arguments: JsonObject | None = None) -> web.Response:
    said: JsonObject = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": why}
    if arguments is not None:
        said["updatedInput"] = arguments
    return web.json_response({"hookSpecificOutput": said})


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _refusal(status: int, code: str, sentence: str) -> web.Response:
    response = web.json_response({"error": {"code": code, "message": sentence}}, status=status)
    if status == 401:
        response.headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
    return response


def _wait(request: web.Request) -> tuple[float, bool]:
    """For how long, and whether to the end of the call."""
    given, until = request.query.get("wait"), request.query.get("until", "decided")
    if until not in ("decided", "over"):
        raise Invalid('until must be "decided" or "over".')
    try:
        return 0.0 if given is None else min(LONGEST_WAIT, parse_duration(given).total_seconds()), until == "over"
    except ValueError as error:
        raise Invalid(f"wait {error}.") from error


def _claimant(body: JsonObject, *others: str) -> str:
    _only(body, "claim", *others)
    claim = body.get("claim")
    if not isinstance(claim, str) or not 16 <= len(claim) <= _LONGEST_KEY or not claim.isprintable():
        raise Invalid(f"claim must be a random text of 16 to {_LONGEST_KEY} characters that only this claimant has.")
    return claim


def _only(body: JsonObject, *names: str) -> None:
    if strange := sorted(body.keys() - {*names}):
        raise Invalid(f"{visible(strange[0])[:60]} is no field here; there are {', '.join(names)}.")


def _may_ask(by: CallerSettings, tool: str) -> bool:
    return any(fnmatchcase(tool, pattern) for pattern in by.tools)


def _checked(body: JsonObject, by: CallerSettings) -> str:
    """The ask as it is stored. Raises an error for one that this caller may not send."""
    _only(body, "tool", "arguments", "reason", "preview")
    tool, arguments = body.get("tool"), body.get("arguments", {})
    if not isinstance(tool, str) or not 0 < len(tool) <= _LONGEST_TOOL or not tool.isprintable():
        raise Invalid(f"tool must be a name of 1 to {_LONGEST_TOOL} printable characters.")
    if tool in REQUEST_NAMES or not _may_ask(by, tool):
        raise Forbidden(f"{by.name} may not ask for {tool}. The settings say for what: {', '.join(by.tools)}.")
    if not isinstance(arguments, dict):
        raise Invalid("arguments must be an object.")
    check_json(arguments, "The call")
    jcs(arguments)
    for name, longest in (("reason", _LONGEST_REASON), ("preview", _LONGEST_PREVIEW)):
        said = body.get(name, "")
        if not isinstance(said, str) or len(said) > longest:
            raise Invalid(f"{name} must be a text of at most {longest:,} characters.")
    return canonical({"tool": tool, "arguments": arguments, **{n: body[n] for n in ("reason", "preview") if n in body}})


def _as_json(state: AskState) -> JsonObject:
    """An ask as its caller sees it."""
    ask, row = state.ask, state.row
    at = f"/v1/asks/{ask.id}"
    task: JsonObject = {
        "id": ask.id,
        "status": state.status,
        "over": state.over,
        "tool": ask.tool,
        "status_endpoint": at,
        "links": {name: f"{at}/{name}" for name in ("claim", "result", "cancel")},
    }
    if state.why is not None:
        task["reason"] = state.why
    if state.nobody:
        task["nobody_decides"] = True
    if row is None:
        return {"task": task}
    task["expires_at"] = stamp(row.deadline)
    votes: Json = len(row.voters(VoteKind.APPROVE))
    task["progress"] = {"current_step": votes, "total_steps": row.policy.quorum}
    if state.status != "approved":
        return {"task": task}
    approval: JsonObject = {
        "id": row.id,
        "approved_at": stamp(row.decision.at) if row.decision else None,
        "approved_until": stamp(row.start_by) if row.start_by else None,
        "approved_by": [*approved_by(row)],
        "attempt": row.attempt,
        "revision": row.revision.number,
        "edited": canonical(row.revision.arguments) != canonical(ask.arguments),
    }
    outcome: JsonObject = {}
    if row.outcome is not None:
        outcome = {"outcome": {"kind": str(row.outcome.kind), "text": row.outcome.text}}
    return {"task": task, "result": {"approval": approval, **outcome}}


async def serve_door(
    stack: AsyncExitStack,
    stop: Shutdown,
    settings: DoorSettings,
    host: DoorHost,
    database: Database,
    slack: Slack,
    team: str,
    rules: Rules,
    metrics: Metrics,
) -> str:
    """Takes requests of callers from now on, whose tokens are in the environment. Returns the address."""
    tokens = {one.name: os.environ.get(one.token_env, "").strip() for one in settings.caller}
    for name, token in tokens.items():
        if len(token) < SHORTEST:
            raise CannotServe(
                f"The token of the caller {name} must have at least {SHORTEST} characters: openssl rand -hex 32"
            )
    if len({*tokens.values()}) < len(tokens):
        raise CannotServe("Two callers have the same token: a caller is known by its token, so give each its own.")
    api = DoorApi(settings, tokens, host, database, slack, team, rules, metrics)
    served = server_for(api.site(), shutdown_timeout=LAST_REQUESTS)
    await served.setup()
    stack.push_async_callback(stop.close_part, "the door", served.cleanup, StopDeadline.REQUESTS)
    return await listen(served, settings.host, settings.port, "[door] listen")
