"""Gemini, through google-genai: asks, puts the answer together from its pieces, and says why there is no whole answer.
Only this module imports google-genai, and it is loaded with the first Gemini model."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import aiohttp
from google import genai
from google.auth.exceptions import GoogleAuthError
from google.genai import errors, types
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from adk_confirm.runtime.errors import why_unreached
from adk_confirm.runtime.jsontypes import JsonObject, as_object, objects
from adk_confirm.runtime.models.protocol import ModelFailure, ModelRequest, ModelResponse
from adk_confirm.runtime.wire import Content, Part

# The SDK takes foreign JSON apart without looking: what is no Gemini answer ends in one of these.
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError)
_KNOWN = (errors.APIError, aiohttp.ClientError, OSError, GoogleAuthError, *_UNREADABLE)

_OURS = "adk-"  # begins the ids that the runtime gave to calls without one; Gemini never saw them

RETRIES = types.HttpRetryOptions(attempts=5, initial_delay=0.5, jitter=0.5)


class GeminiModel:
    """`gemini-…` on the Gemini API, or on Vertex AI where the environment says so or the name begins `projects/`.

    The key comes from `GOOGLE_API_KEY` or `GEMINI_API_KEY`, another base URL from `GOOGLE_GEMINI_BASE_URL`. The SDK
    asks an overloaded or unreachable server up to five times; what has begun to stream is never asked for again.
    """

    def __init__(self) -> None:
        self._clients: dict[bool, tuple[asyncio.AbstractEventLoop, genai.Client]] = {}

    def __repr__(self) -> str:
        return "GeminiModel()"

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelResponse, None]:
        answer, begun = AnswerBuilder(), False
        vertex = goes_to_vertex(request.model)
        client = self._client(vertex)
        try:
            async with aclosing(_pieces(client, request, vertex)) as pieces:
                async for piece in pieces:
                    begun = True
                    shown = answer.add(piece)
                    if shown is not None and request.streaming:
                        yield ModelResponse(shown, partial=True, model_version=piece.model_version)
        except _KNOWN as error:
            raise _failure(error, request.model, begun=begun) from error
        yield answer.whole()

    async def close(self) -> None:
        """Closes the connections. The next request opens new ones."""
        clients, self._clients = self._clients, {}
        for _, client in clients.values():
            await client.aio.aclose()
            client.close()

    def _client(self, vertex: bool) -> genai.Client:
        """One client for each event loop, since each has its own connections and TLS contexts."""
        loop = asyncio.get_running_loop()
        known = self._clients.get(vertex)
        if known is not None and known[0] is loop:
            return known[1]
        # Each major version of the SDK has another API version as its default. Tools need v1beta with each.
        version = None if vertex or os.environ.get("GOOGLE_GENAI_API_VERSION") else "v1beta"
        options = types.HttpOptions(api_version=version, retry_options=RETRIES)
        try:
            client = genai.Client(vertexai=vertex, http_options=options)
        except (ValueError, GoogleAuthError) as error:
            raise ModelFailure("UNAUTHENTICATED", f"Google's credentials do not work: {error}") from error
        self._clients[vertex] = loop, client
        return client


async def _pieces(
    client: genai.Client, request: ModelRequest, vertex: bool
) -> AsyncGenerator[types.GenerateContentResponse, None]:
    """The answer's pieces. Without streaming there is only one."""
    config = _config(request)
    contents: types.ContentListUnionDict = [_sdk_content(one, vertex) for one in request.contents if one.parts]
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


def goes_to_vertex(model: str) -> bool:
    """Whether Vertex AI is asked. Raises `ModelFailure` if it is the Gemini API, and there is no key."""
    said = os.environ.get("GOOGLE_GENAI_USE_ENTERPRISE") or os.environ.get("GOOGLE_GENAI_USE_VERTEXAI") or ""
    vertex = model.startswith("projects/") or said.lower() in ("true", "1")
    if not vertex and not (os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY")):
        raise ModelFailure("API_KEY_MISSING", "There is no key for Gemini: set GOOGLE_API_KEY or GEMINI_API_KEY.")
    return vertex


def _config(request: ModelRequest) -> types.GenerateContentConfig:
    try:
        config = types.GenerateContentConfig.model_validate(request.config)
    except ValidationError as error:
        where, problem = _first_problem(error)
        unknown = problem["type"] == "extra_forbidden"
        raise bad_config(f"it has no {where!r}" if unknown else f"{where}: {problem['msg']}") from error
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


def _sdk_content(content: Content, vertex: bool) -> types.ContentDict:
    """The SDK's form, without what Gemini refuses: our own ids and, on the Gemini API, file names. A long history is
    dicts, which the SDK reads in a third of the time."""
    plain: Any = content.model_dump(exclude_none=True)
    for part in plain["parts"]:
        for kind in ("function_call", "function_response"):
            if kind in part and str(part[kind].get("id", "")).startswith(_OURS):
                del part[kind]["id"]
        for kind in ("inline_data", "file_data"):
            if kind in part and not vertex:
                part[kind].pop("display_name", None)
    try:
        types.Content.model_validate(plain)
    except ValidationError as error:
        where, problem = _first_problem(error)
        why = f"A message of this session is not one that Gemini takes: {where}: {problem['msg']}."
        raise ModelFailure("BAD_CONTENT", why) from error
    sent: types.ContentDict = plain
    return sent


def _first_problem(error: ValidationError) -> tuple[str, ErrorDetails]:
    problem = error.errors(include_url=False)[0]
    return ".".join(map(str, problem["loc"])), problem


_LONGEST_MESSAGE = 400
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s?")


def _failure(error: Exception, model: str, *, begun: bool) -> ModelFailure:
    match error:
        case errors.APIError():
            return _refusal(error, model)
        case GoogleAuthError():
            return ModelFailure("UNAUTHENTICATED", f"Google Cloud's credentials do not work: {error}.")
        case aiohttp.ClientError() | OSError() if begun:
            return ModelFailure("INTERRUPTED", f"The answer of {model} broke off half-way: ask again.")
        case aiohttp.ClientError() | OSError():
            why = _shorten(why_unreached(error))
            return ModelFailure("UNREACHABLE", f"The server of {model} can't be reached: {why}. Try again later.")
    return ModelFailure("BAD_RESPONSE", f"The server of {model} sent something that is not an answer from Gemini.")


def _refusal(error: errors.APIError, model: str) -> ModelFailure:
    """Explains an HTTP error."""
    body, code = as_object(error.details), error.code or 0
    details = objects(as_object(body.get("error") or body).get("details"))
    status = str(error.status or f"HTTP_{code}").upper().replace(" ", "_")
    message = _shorten(str(error.message or "no reason given"))
    if code in (408, 429) or code >= 500:
        said = "allows no more requests for now" if code == 429 else "is out of order for now"
        wait = _wait_asked_for(error, details)
        rest = f" It asks to wait {wait:g} s." if wait else ""
        return ModelFailure(status, f"The server of {model} {said} ({code}: {message}).{rest} Try again later.")
    reasons = [one.get("reason") for one in details]
    if code == 401 or "API_KEY_INVALID" in reasons or "api key not valid" in message.lower():
        return ModelFailure(
            "API_KEY_INVALID",
            f"Gemini does not accept the API key: check GOOGLE_API_KEY or GEMINI_API_KEY ({message}).",
        )
    if code == 403:
        return ModelFailure(status, f"The API key may not use {model}: {message}.")
    if code == 404:
        return ModelFailure(status, f"Gemini has no model {model!r}: check its name ({message}).")
    return ModelFailure(status, f"Gemini does not take the request to {model}: {message}.")


def _wait_asked_for(error: errors.APIError, details: list[JsonObject]) -> float:
    """`Retry-After` in seconds, or Google's own `RetryInfo`, whichever is longer. Dates are ignored."""
    headers = getattr(error.response, "headers", None) or {}
    asked = [headers.get("Retry-After", ""), *(str(one.get("retryDelay", "")) for one in details)]
    return max((float(found[1]) for text in asked if (found := _SECONDS.fullmatch(text.strip()))), default=0.0)


def _shorten(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_MESSAGE].rstrip(".")


def bad_config(problem: str) -> ModelFailure:
    return ModelFailure("BAD_CONFIG", f"generate_content_config does not fit Gemini: {problem}.")


_FINISHED = {None, "STOP", "FINISH_REASON_UNSPECIFIED"}

_WHY = {
    "MAX_TOKENS": "The answer reached its limit of tokens before it was complete: raise max_output_tokens, or ask "
    "for less.",
    "MALFORMED_FUNCTION_CALL": "The model tried to call a tool in a way that nobody can read: ask again.",
    "UNEXPECTED_TOOL_CALL": "The model tried to call a tool that it was not offered: ask again.",
}


class AnswerBuilder:
    """Puts an answer together from its pieces: neighbouring texts are joined, everything else is kept as it is.

    A part with a signature is never joined with another: Gemini wants it back unchanged.
    """

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._finish_reason: str | None = None
        self._finish_message: str | None = None
        self._feedback: types.GenerateContentResponsePromptFeedback | None = None
        self._usage: JsonObject | None = None
        self._model_version: str | None = None

    def add(self, piece: types.GenerateContentResponse) -> Content | None:
        """Adds a piece, and returns the texts in it that can be shown at once, including thoughts."""
        self._feedback = piece.prompt_feedback or self._feedback
        self._model_version = piece.model_version or self._model_version
        if piece.usage_metadata:
            self._usage = piece.usage_metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
        candidate = piece.candidates[0] if piece.candidates else types.Candidate()
        if candidate.finish_reason:
            self._finish_reason = str(candidate.finish_reason.value)
        self._finish_message = candidate.finish_message or self._finish_message
        if not candidate.content:
            return None
        for part in candidate.content.parts or ():
            if (call := part.function_call) and (call.partial_args or call.will_continue):
                raise bad_config("stream_function_call_arguments is not supported: a call is taken whole")
        said = Content.model_validate_json(candidate.content.model_dump_json(by_alias=True, exclude_none=True))
        for ours in said.parts or ():
            self._add_part(ours)
        shown = [ours for ours in said.parts or () if ours.text]
        return Content(role="model", parts=shown) if shown else None

    def _add_part(self, part: Part) -> None:
        last = self._parts[-1] if self._parts else None
        if not _is_plain_text(part):
            self._parts.append(part)
        elif last is not None and _is_plain_text(last) and bool(last.thought) == bool(part.thought):
            self._parts[-1] = last.model_copy(update={"text": (last.text or "") + (part.text or "")})
        elif part.text:
            self._parts.append(part)

    def whole(self) -> ModelResponse:
        """The complete answer. If the model did not finish it, the answer says why.

        Text that was cut short is kept, since people may have seen it. A tool call that was cut short is dropped.
        """
        code, why = self._problem()
        cut = [part for part in self._parts if part.text] if code == "MAX_TOKENS" else []
        parts = cut if code else self._parts
        return ModelResponse(
            content=Content(role="model", parts=parts) if parts else None,
            finish_reason=self._finish_reason,
            error_code=code,
            error_message=why,
            usage=self._usage,
            model_version=self._model_version,
        )

    def _problem(self) -> tuple[str, str] | tuple[None, None]:
        """Why this is no whole answer, as a code and a sentence."""
        if self._feedback and self._feedback.block_reason:
            reason = str(self._feedback.block_reason.value)
            said = f" {message}" if (message := self._feedback.block_reason_message) else ""
            return reason, f"The request was blocked before the model answered ({reason}): put it differently.{said}"
        if self._finish_reason in _FINISHED:
            return None, None
        reason = str(self._finish_reason)
        known = _WHY.get(reason) or (
            f"The model stopped before its answer was complete ({reason}): put the request differently."
        )
        return reason, f"{known} {self._finish_message}" if self._finish_message else known


def _is_plain_text(part: Part) -> bool:
    return part.model_dump(exclude_none=True, exclude={"thought"}).keys() == {"text"}
