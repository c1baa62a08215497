"""Gemini, through google-genai. Only this module imports google-genai, and it is loaded with the first Gemini model."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import secrets
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import aiohttp
from google import genai
from google.auth.exceptions import GoogleAuthError
from google.genai import errors, types
from pydantic import ValidationError
from yarl import URL

from runtime.jsontypes import canonical
from runtime.models import gemini_failures
from runtime.models.gemini_failures import Trouble
from runtime.models.gemini_json import AnswerBuilder, Chunk, HistoryJson, instruction_json, read_answer, tools_json
from runtime.models.model import ModelFailure, ModelRequest, ModelResponse
from runtime.wire import Content

# The SDK takes foreign JSON apart without looking: what is no Gemini answer ends in one of these.
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError)
_KNOWN = (errors.APIError, aiohttp.ClientError, OSError, GoogleAuthError, *_UNREADABLE)

_OURS_GOES_HERE = f"ours-{secrets.token_hex(16)}"  # random, so that nothing else can contain it
_MARKER = json.dumps([_OURS_GOES_HERE]).encode()
_being_asked: ContextVar[_GeminiRequest] = ContextVar("adk_confirm_gemini_request")
_MOST_TEMPLATES = 100
_BY_AIOHTTP = frozenset(
    {"authorization", "content-length", "cookie", "host", "transfer-encoding"}
)  # it adds them again
_NO_LIMIT = aiohttp.ClientTimeout(total=None)
_READ_BUFFER = 2**22  # as in the SDK's own session: one line of a stream may be this long


# The SDK asks `name in config` for each of forty fields before it reads the attribute. A pydantic model answers that by
# walking through all of its fields, a quarter of what the SDK takes for a request. It also copies the configuration
# deeply, though nobody else has it. Made by `type`, since mypy cannot resolve a name in the base class.
_Config: Any = type(
    "_Config",
    (types.GenerateContentConfig,),
    {
        "__module__": __name__,
        "__contains__": lambda _, _name: False,
        "__deepcopy__": lambda config, _memo=None: config.__copy__(),
    },
)
_NOTHING = types.Content()  # cheap to convert


@dataclass(frozen=True)
class _Template:
    """A request as the SDK wrote it, with the marker where our fields go. Later requests with the same key differ only
    in those, and are sent without the SDK. It would take a sixth of the CPU of a whole cycle."""

    url: URL
    headers: Mapping[str, str]
    body: bytes
    ssl: Any

    async def send(self, session: aiohttp.ClientSession) -> str:
        """The body of the answer, as the SDK reads it."""
        response = await session.post(self.url, headers=self.headers, data=self.body, ssl=self.ssl, timeout=_NO_LIMIT)
        await errors.APIError.raise_for_async_response(response)
        return await response.text()


@dataclass(frozen=True)
class _GeminiRequest:
    """A request, and its fields that we write: `ours` is the value of "contents", and what follows. Requests with the
    same key differ only in these."""

    client: _Client
    request: ModelRequest
    ours: bytes
    key: str | None

    @cached_property
    def config(self) -> types.GenerateContentConfig:
        return _config(self.request)

    async def ask(self) -> AsyncGenerator[Chunk, None]:
        _being_asked.set(self)
        token: bytes | None = None
        while not self.request.streaming:
            chunk, token = read_answer(await self._whole_answer(token))
            yield chunk
            if token is None or getattr(self.config, "automatic_continuation", False) is False:
                return
        models = self.client.sdk.aio.models
        stream = await models.generate_content_stream(model=self.request.model, contents=_NOTHING, config=self.config)
        try:
            async for response in stream:
                yield _chunk(response)
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    async def _whole_answer(self, token: bytes | None) -> str:
        """The JSON of an answer, or with a token, of its rest."""
        if token is None and self.key in self.client.templates:
            return await self.client.templates[self.key].send(self.client.session)
        config = self.config if token is None else self.config.model_copy(update={"continuation_token": token})
        # The configuration's extra body replaces these contents, and `_put_ours_in` replaces the marker.
        response = await self.client.sdk.aio.models.generate_content(
            model=self.request.model, contents=_NOTHING, config=config
        )
        return (response.sdk_http_response and response.sdk_http_response.body) or ""

    def keep_template(self, sent: aiohttp.ClientRequest, body: bytes) -> None:
        """Keeps what the SDK wrote, for later requests with the same key."""
        templates = self.client.templates
        if self.key is not None and self.key not in templates and len(templates) < _MOST_TEMPLATES:
            headers = {name: value for name, value in sent.headers.items() if name.lower() not in _BY_AIOHTTP}
            templates[self.key] = _Template(sent.url, headers, body, sent.ssl)


class GeminiModel:
    """`gemini-…` on the Gemini API, or on Vertex AI where the environment says so or the name begins `projects/`.

    The key comes from `GOOGLE_API_KEY` or `GEMINI_API_KEY`, another base URL from `GOOGLE_GEMINI_BASE_URL`. An
    overloaded or unreachable server is asked up to `attempts` times, all within `patience` seconds. An answer that
    streams may take longer, as long as no silence in it does; what has begun to stream is never asked for again.
    """

    def __init__(self, *, patience: float = 60.0, attempts: int = 5, first_pause: float = 0.5) -> None:
        self._patience = patience
        self._attempts = attempts
        self._first_pause = first_pause
        self._clients: dict[bool, _Client] = {}

    def __repr__(self) -> str:
        return "GeminiModel()"

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelResponse, None]:
        builder = AnswerBuilder()
        async with aclosing(self._chunks(request)) as chunks:
            async for chunk in chunks:
                shown = builder.add(chunk)
                if shown is not None and request.streaming:
                    yield ModelResponse(shown, partial=True, model_version=chunk.model_version)
        yield builder.whole()

    async def close(self) -> None:
        """Closes the connections. The next request opens new ones."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()

    async def _chunks(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        stream, chunk = await self._begin(self._gemini_request(request))
        async with aclosing(stream):
            while chunk is not None:
                yield chunk
                try:
                    async with asyncio.timeout(self._patience):
                        chunk = await anext(stream, None)
                except _KNOWN as error:
                    raise self._trouble(error, request.model, begun=True).failure from error

    async def _begin(self, gemini_request: _GeminiRequest) -> tuple[AsyncGenerator[Chunk, None], Chunk | None]:
        """The answer's stream and its first piece. The request is repeated as long as that may help."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience
        for attempt in itertools.count(1):
            stream = gemini_request.ask()
            try:
                async with asyncio.timeout_at(deadline):
                    return stream, await anext(stream, None)
            except _KNOWN as error:
                trouble = self._trouble(error, gemini_request.request.model, begun=False)
                pause = max(trouble.wait, self._pause(attempt))
                if not trouble.passing or attempt >= self._attempts or loop.time() + pause >= deadline:
                    raise trouble.failure from error
            await asyncio.sleep(pause)
        raise AssertionError("a count does not end")

    def _pause(self, attempt: int) -> float:
        longest = self._first_pause * 2.0 ** (attempt - 1)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311  (keeps clients apart, no secret)

    def _trouble(self, error: Exception, model: str, *, begun: bool) -> Trouble:
        match error:
            case TimeoutError():
                return gemini_failures.explain_time_out(model, self._patience)
            case errors.APIError():
                return gemini_failures.explain_refusal(error.code or 0, error.details, _headers(error), model)
            case GoogleAuthError():
                failure = ModelFailure("UNAUTHENTICATED", f"Google Cloud's credentials do not work: {error}.")
                return Trouble(failure, passing=bool(error.retryable))
            case aiohttp.ClientError() | OSError():
                return gemini_failures.explain_break(error, model, begun=begun)
            case _:
                return gemini_failures.explain_unreadable(model)

    def _gemini_request(self, request: ModelRequest) -> _GeminiRequest:
        vertex = request.model.startswith("projects/") or _says_vertex()
        history = request.kept.setdefault((GeminiModel, vertex), HistoryJson(vertex=vertex))
        assert isinstance(history, HistoryJson)
        ours = [b"[", history.of(request.contents), b"]"]
        if request.instruction:
            ours += [b', "systemInstruction": ', instruction_json(request.instruction)]
        if request.tools and not request.config.get("tools"):
            ours += [b', "tools": ', tools_json(request.tools)]
        return _GeminiRequest(self._client(vertex), request, b"".join(ours), None if vertex else _key(request))

    def _client(self, vertex: bool) -> _Client:
        """One client for each event loop, since each has its own connections and TLS contexts."""
        known = self._clients.get(vertex)
        if known is None or known.loop is not asyncio.get_running_loop():
            known = self._clients[vertex] = _new_client(vertex)
        return known


@dataclass(frozen=True)
class _Client:
    """The SDK's client with a session of ours, which puts the history into each request."""

    sdk: genai.Client
    session: aiohttp.ClientSession
    loop: asyncio.AbstractEventLoop
    templates: dict[str, _Template] = field(default_factory=dict)

    async def close(self) -> None:
        await self.sdk.aio.aclose()
        self.sdk.close()
        await self.session.close()


async def _put_ours_in(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """An aiohttp middleware that writes the history, the instruction and the tools into the request. The SDK would
    convert them through its own types, and write them as JSON again for each request: with a few tools that is most of
    its work."""
    body = await request.body.as_bytes() if isinstance(request.body, aiohttp.Payload) else request.body
    before, marker, after = body.partition(_MARKER)
    if marker:
        gemini_request = _being_asked.get()
        gemini_request.keep_template(request, body)
        await request.update_body(b"".join((before, gemini_request.ours, after)))
    return await handler(request)


def _says_vertex() -> bool:
    said = os.environ.get("GOOGLE_GENAI_USE_ENTERPRISE") or os.environ.get("GOOGLE_GENAI_USE_VERTEXAI") or ""
    return said.lower() in ("true", "1")


def _new_client(vertex: bool) -> _Client:
    if not vertex and not (os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY")):
        raise gemini_failures.no_key()
    # The SDK's majors differ in the version that they ask for by themselves; tools need v1beta at both.
    version = None if vertex or os.environ.get("GOOGLE_GENAI_API_VERSION") else "v1beta"
    once = types.HttpRetryOptions(attempts=1)  # we make the attempts ourselves, so that all of them end in time
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        middlewares=(_put_ours_in,),
        trust_env=True,
        read_bufsize=_READ_BUFFER,
    )
    options = types.HttpOptions(api_version=version, retry_options=once, aiohttp_client=session)
    try:
        return _Client(genai.Client(vertexai=vertex, http_options=options), session, asyncio.get_running_loop())
    except (ValueError, GoogleAuthError) as error:
        session.detach()  # it has no connections yet
        raise ModelFailure("UNAUTHENTICATED", f"Google's credentials do not work: {error}") from error


def _key(request: ModelRequest) -> str | None:
    """None: this request is like no other. The SDK writes the tools of a configuration together with ours, and its HTTP
    options may say what a request does not show, such as a time limit."""
    if request.streaming or not request.config.keys().isdisjoint(("tools", "http_options", "httpOptions")):
        return None
    try:
        return canonical([request.model, bool(request.instruction), request.config])
    except (TypeError, ValueError):
        return None  # the SDK's own objects


def _config(request: ModelRequest) -> types.GenerateContentConfig:
    try:
        config: types.GenerateContentConfig = _Config.model_validate(request.config)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in problem["loc"])
        unknown = problem["type"] == "extra_forbidden"
        raise gemini_failures.bad_config(f"it has no {where!r}" if unknown else f"{where}: {problem['msg']}") from error
    if request.instruction:
        config.system_instruction = None  # replaced by ours
    if request.tools and config.tools:  # if both are given, the SDK writes them
        declared = [
            types.FunctionDeclaration(name=t.name, description=t.description, parameters_json_schema=t.schema)
            for t in request.tools
        ]
        config.tools = [*config.tools, types.Tool(function_declarations=declared)]
    config.should_return_http_response = not request.streaming  # `read_answer` reads it, ten times as fast
    config.automatic_function_calling = types.AutomaticFunctionCallingConfig(disable=True)
    options = config.http_options or types.HttpOptions()
    options.extra_body = {**(options.extra_body or {}), "contents": [_OURS_GOES_HERE]}
    config.http_options = options
    return config


def _chunk(response: types.GenerateContentResponse) -> Chunk:
    """A piece of a stream."""
    candidate = response.candidates[0] if response.candidates else None
    feedback = response.prompt_feedback
    usage = response.usage_metadata
    content = candidate.content if candidate else None
    if any(call.partial_args or call.will_continue for call in _calls(content)):
        raise gemini_failures.bad_config("stream_function_call_arguments is not supported: a call is taken whole")
    return Chunk(
        content=Content.model_validate_json(content.model_dump_json(by_alias=True, exclude_none=True))
        if content
        else None,
        finish_reason=str(candidate.finish_reason.value) if candidate and candidate.finish_reason else None,
        finish_message=candidate.finish_message if candidate else None,
        block_reason=str(feedback.block_reason.value) if feedback and feedback.block_reason else None,
        block_message=feedback.block_reason_message if feedback else None,
        usage=usage.model_dump(mode="json", by_alias=True, exclude_none=True) if usage else None,
        model_version=response.model_version,
    )


def _calls(content: types.Content | None) -> Iterator[types.FunctionCall]:
    return (part.function_call for part in (content.parts if content else None) or () if part.function_call)


def _headers(error: errors.APIError) -> Mapping[str, str]:
    headers = getattr(error.response, "headers", None)
    return headers if isinstance(headers, Mapping) else {}
