"""Gemini, through google-genai. Only this package's Gemini modules import google-genai, and they are loaded with the
first Gemini model."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import aiohttp
from google import genai
from google.auth.exceptions import GoogleAuthError
from google.genai import errors, types
from pydantic import ValidationError

from runtime.models import gemini_failures
from runtime.models.gemini_answer import AnswerBuilder
from runtime.models.model import ModelFailure, ModelRequest, ModelResponse
from runtime.wire import Content

# The SDK takes foreign JSON apart without looking: what is no Gemini answer ends in one of these.
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError)
_KNOWN = (errors.APIError, aiohttp.ClientError, OSError, GoogleAuthError, *_UNREADABLE)

_OURS = "adk-"  # begins the ids that the runtime gave to calls without one; Gemini never saw them


class GeminiModel:
    """`gemini-…` on the Gemini API, or on Vertex AI where the environment says so or the name begins `projects/`.

    The key comes from `GOOGLE_API_KEY` or `GEMINI_API_KEY`, another base URL from `GOOGLE_GEMINI_BASE_URL`. The SDK
    asks an overloaded or unreachable server up to `attempts` times, all within `patience` seconds. An answer that
    streams may take longer, as long as no silence in it does; what has begun to stream is never asked for again.
    """

    def __init__(self, *, patience: float = 60.0, attempts: int = 5, first_pause: float = 0.5) -> None:
        self._patience = patience
        self._retries = types.HttpRetryOptions(attempts=attempts, initial_delay=first_pause, jitter=first_pause)
        self._clients: dict[bool, tuple[asyncio.AbstractEventLoop, genai.Client]] = {}

    def __repr__(self) -> str:
        return "GeminiModel()"

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelResponse, None]:
        answer, begun = AnswerBuilder(), False
        vertex = request.model.startswith("projects/") or _says_vertex()
        client = self._client(vertex)
        try:
            async with aclosing(_pieces(client, request, vertex)) as pieces:
                while True:
                    async with asyncio.timeout(self._patience):
                        piece = await anext(pieces, None)
                    if piece is None:
                        break
                    begun = True
                    shown = answer.add(piece)
                    if shown is not None and request.streaming:
                        yield ModelResponse(shown, partial=True, model_version=piece.model_version)
        except _KNOWN as error:
            raise self._failure(error, request.model, begun=begun) from error
        yield answer.whole()

    async def close(self) -> None:
        """Closes the connections. The next request opens new ones."""
        clients, self._clients = self._clients, {}
        for _, client in clients.values():
            await client.aio.aclose()
            client.close()

    def _failure(self, error: Exception, model: str, *, begun: bool) -> ModelFailure:
        match error:
            case TimeoutError():
                return gemini_failures.explain_time_out(model, self._patience)
            case errors.APIError():
                headers = getattr(error.response, "headers", None)
                known = headers if isinstance(headers, Mapping) else {}
                return gemini_failures.explain_refusal(error.code or 0, error.details, known, model)
            case GoogleAuthError():
                return ModelFailure("UNAUTHENTICATED", f"Google Cloud's credentials do not work: {error}.")
            case aiohttp.ClientError() | OSError():
                return gemini_failures.explain_break(error, model, begun=begun)
            case _:
                return gemini_failures.explain_unreadable(model)

    def _client(self, vertex: bool) -> genai.Client:
        """One client for each event loop, since each has its own connections and TLS contexts."""
        loop = asyncio.get_running_loop()
        known = self._clients.get(vertex)
        if known is None or known[0] is not loop:
            known = self._clients[vertex] = loop, self._new_client(vertex)
        return known[1]

    def _new_client(self, vertex: bool) -> genai.Client:
        if not vertex and not (os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY")):
            raise gemini_failures.no_key()
        # The SDK's majors differ in the version that they ask for by themselves; tools need v1beta at both.
        version = None if vertex or os.environ.get("GOOGLE_GENAI_API_VERSION") else "v1beta"
        options = types.HttpOptions(api_version=version, retry_options=self._retries)
        try:
            return genai.Client(vertexai=vertex, http_options=options)
        except (ValueError, GoogleAuthError) as error:
            raise ModelFailure("UNAUTHENTICATED", f"Google's credentials do not work: {error}") from error


async def _pieces(
    client: genai.Client, request: ModelRequest, vertex: bool
) -> AsyncGenerator[types.GenerateContentResponse, None]:
    """The answer's pieces. Without streaming there is only one."""
    config = _config(request)
    contents: types.ContentListUnion = [_sdk_content(one, vertex) for one in request.contents if one.parts]
    models = client.aio.models
    if not request.streaming:
        yield await models.generate_content(model=request.model, contents=contents, config=config)
        return
    stream = await models.generate_content_stream(model=request.model, contents=contents, config=config)
    try:
        async for piece in stream:
            yield piece
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()


def _says_vertex() -> bool:
    said = os.environ.get("GOOGLE_GENAI_USE_ENTERPRISE") or os.environ.get("GOOGLE_GENAI_USE_VERTEXAI") or ""
    return said.lower() in ("true", "1")


def _config(request: ModelRequest) -> types.GenerateContentConfig:
    try:
        config = types.GenerateContentConfig.model_validate(request.config)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in problem["loc"])
        unknown = problem["type"] == "extra_forbidden"
        raise gemini_failures.bad_config(f"it has no {where!r}" if unknown else f"{where}: {problem['msg']}") from error
    if request.instruction:
        config.system_instruction = request.instruction
    if request.tools:
        declared = [
            types.FunctionDeclaration(name=t.name, description=t.description, parameters_json_schema=t.schema)
            for t in request.tools
        ]
        config.tools = [*(config.tools or ()), types.Tool(function_declarations=declared)]
    config.automatic_function_calling = types.AutomaticFunctionCallingConfig(disable=True)
    return config


def _sdk_content(content: Content, vertex: bool) -> types.Content:
    """The SDK's form, without what Gemini refuses: our own ids and, on the Gemini API, file names."""
    plain = content.model_dump(exclude_none=True)
    for part in plain["parts"]:
        for kind in ("function_call", "function_response"):
            if kind in part and str(part[kind].get("id", "")).startswith(_OURS):
                del part[kind]["id"]
        for kind in ("inline_data", "file_data"):
            if kind in part and not vertex:
                part[kind].pop("display_name", None)
    try:
        return types.Content.model_validate(plain)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in problem["loc"])
        raise gemini_failures.bad_content(where, problem["msg"]) from error
