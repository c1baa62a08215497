"""Gemini's HTTP API on this machine: strict about requests, with answers that the test sets.

async with FakeGemini() as gemini:
    gemini.will(say("Hello."), call("lookup", city="Oslo"), refuse(503), CUT)
    …                                   # with gemini.environment(directory)
    assert gemini.heard[0]["contents"] == […]
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import certifi
import pytest
from aiohttp import web

JsonDict = dict[str, Any]


@dataclass(frozen=True)
class Chunks:
    """An answer in pieces. A request without streaming gets the first piece alone. `then` says how it ends."""

    pieces: Sequence[JsonDict]
    then: str = "end"  # end | cut | hang | garbage


@dataclass(frozen=True)
class Refusal:
    status: int
    body: str
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


Answer = Chunks | Refusal
CUT = Chunks([], then="cut")
HANG = Chunks([], then="hang")


def piece(*parts: JsonDict, finish: str | None = None) -> JsonDict:
    """One message of an answer."""
    candidate: JsonDict = {"index": 0}
    if parts:
        candidate["content"] = {"role": "model", "parts": list(parts)}
    if finish:
        candidate["finishReason"] = finish
    usage = {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash-001"}


def say(*texts: str) -> Chunks:
    """A text, in this many pieces."""
    last = len(texts) - 1
    return Chunks([piece({"text": text}, finish="STOP" if at == last else None) for at, text in enumerate(texts)])


def call(name: str, **args: Any) -> Chunks:
    return Chunks([piece({"functionCall": {"name": name, "args": args}}, finish="STOP")])


def finish(reason: str, *parts: JsonDict) -> Chunks:
    return Chunks([piece(*parts, finish=reason)])


def blocked(reason: str) -> Chunks:
    return Chunks([{"promptFeedback": {"blockReason": reason}, "usageMetadata": {"promptTokenCount": 7}}])


def refuse(
    status: int,
    name: str = "UNAVAILABLE",
    message: str = "The model is overloaded.",
    *,
    details: Sequence[JsonDict] = (),
    headers: dict[str, str] | None = None,
) -> Refusal:
    error: JsonDict = {"code": status, "message": message, "status": name}
    if details:
        error["details"] = list(details)
    return Refusal(status, json.dumps({"error": error}), headers or {})


def retry_after(delay: str) -> JsonDict:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


class FakeGemini:
    def __init__(
        self, *, key: str = "test-key", models: Sequence[str] = ("gemini-2.5-flash",), keep_alive: bool = True
    ) -> None:
        """Without `keep_alive` each answer closes its connection: google-adk never closes those of its models."""
        self.key, self._keep_alive = key, keep_alive
        self.models = set(models)
        self.heard: list[JsonDict] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.hanging = asyncio.Event()  # set while a request hangs
        self._answers: list[Answer | Callable[[JsonDict], Answer]] = []
        self._ended = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.url = ""

    def environment(self, directory: Path) -> dict[str, str]:
        """What the SDK needs to ask this server. It reads all known authorities three times for each client, which
        takes a twentieth of a second; here one is enough, since nothing uses TLS."""
        one = directory / "authority.pem"
        end = "-----END CERTIFICATE-----\n"
        one.write_text(Path(certifi.where()).read_text(encoding="utf-8").partition(end)[0] + end, encoding="utf-8")
        return {"GOOGLE_GEMINI_BASE_URL": self.url, "GEMINI_API_KEY": self.key, "SSL_CERT_FILE": str(one)}

    def will(self, *answers: Answer | Callable[[JsonDict], Answer]) -> None:
        """Sets the next answers, in order. A function makes its answer from the request."""
        self._answers.extend(answers)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        if not self._keep_alive:
            app.on_response_prepare.append(_close_after)
        app.router.add_post("/{version:v1beta}/models/{model}:{method}", self._serve)
        app.router.add_post("/{version:v1beta1}/publishers/google/models/{model}:{method}", self._serve)  # Vertex AI
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        self._ended.set()
        await self._runner.cleanup()
        if kind is None:
            assert not self._answers, f"nobody asked for {self._answers}"

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        body["contents"] = [in_camel_case(content) for content in body.get("contents") or ()]
        self.paths.append(request.path_qs)
        self.headers.append(dict(request.headers))
        self.heard.append(body)
        try:
            streaming = self._admit(request, body)
        except BadRequest as bad:
            return _refusal_response(refuse(bad.status, bad.name, str(bad), details=bad.details))
        assert self._answers, f"asked once too often: {json.dumps(body['contents'][-1])}"
        answer = self._answers.pop(0)
        if callable(answer):
            answer = answer(body)
        if isinstance(answer, Refusal):
            return _refusal_response(answer)
        if streaming:
            return await self._stream(request, answer)
        if answer.then == "end":
            return web.json_response(answer.pieces[0])
        await self._misbehave(request, answer.then)
        return web.Response(text='{"candidates": [{"conte', content_type="application/json")

    def _admit(self, request: web.Request, body: JsonDict) -> bool:
        if request.headers.get("x-goog-api-key") != self.key:
            reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
            raise BadRequest("API key not valid. Please pass a valid API key.", details=[reason])
        model, method = request.match_info["model"], request.match_info["method"]
        if model not in self.models:
            message = f"models/{model} is not found for API version v1beta, or is not supported for generateContent."
            raise BadRequest(message, 404, "NOT_FOUND")
        if (method, request.query_string) not in (("generateContent", ""), ("streamGenerateContent", "alt=sse")):
            raise BadRequest(f"no such method: {method}?{request.query_string}", 404, "NOT_FOUND")
        check(body, vertex=request.match_info["version"] == "v1beta1")
        return method == "streamGenerateContent"

    async def _stream(self, request: web.Request, answer: Chunks) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for one in answer.pieces:
            await response.write(b"data: " + json.dumps(one).encode() + b"\r\n\r\n")
        await self._misbehave(request, answer.then)
        if answer.then == "garbage":
            await response.write(b'data: {"candidates": [{"conte\r\n\r\n')
        await response.write_eof()
        return response

    async def _misbehave(self, request: web.Request, how: str) -> None:
        if how == "hang":
            self.hanging.set()
            await self._ended.wait()
        elif how == "cut":
            assert request.transport is not None
            request.transport.abort()
            raise asyncio.CancelledError


@asynccontextmanager
async def asked_by_default(
    directory: Path, monkeypatch: pytest.MonkeyPatch, *, keep_alive: bool = True
) -> AsyncIterator[FakeGemini]:
    """The server that every model of this process asks, until the block ends."""
    for name in ("GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_API_VERSION"):
        monkeypatch.delenv(name, raising=False)
    async with FakeGemini(keep_alive=keep_alive) as server:
        for name, value in server.environment(directory).items():
            monkeypatch.setenv(name, value)
        yield server


async def _close_after(request: web.Request, response: web.StreamResponse) -> None:
    response.force_close()


def _refusal_response(refusal: Refusal) -> web.Response:
    return web.Response(
        status=refusal.status, text=refusal.body, headers=refusal.headers, content_type=refusal.content_type
    )


# Its rules for a request: whatever breaks one gets a 400

_TOP = {
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "generationConfig",
    "safetySettings",
    "cachedContent",
    "continuationToken",
}
_DATA = {
    "text": {"text"},
    "inlineData": {"mimeType", "data"},
    "fileData": {"mimeType", "fileUri"},
    "functionCall": {"id", "name", "args"},
    "functionResponse": {"id", "name", "response", "willContinue", "scheduling", "parts"},
    "executableCode": {"id", "language", "code"},
    "codeExecutionResult": {"id", "outcome", "output"},
    "toolCall": {"id", "toolType", "args"},
    "toolResponse": {"id", "toolType", "response"},
}
_BESIDE = {"thought", "thoughtSignature", "videoMetadata", "partMetadata", "mediaResolution"}
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")


class BadRequest(Exception):
    def __init__(
        self, message: str, status: int = 400, name: str = "INVALID_ARGUMENT", details: Sequence[JsonDict] = ()
    ) -> None:
        super().__init__(message)
        self.status, self.name, self.details = status, name, details


def check(body: JsonDict, *, vertex: bool = False) -> None:
    _require_known(body, _TOP, "")
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        raise BadRequest("* GenerateContentRequest.contents: contents is not specified")
    for at, content in enumerate(contents):
        _content(content if not vertex else _without_names(content), f"contents[{at}]")
    _order(contents)
    if "systemInstruction" in body:
        _parts(body["systemInstruction"], "system_instruction")
    for at, tool in enumerate(body.get("tools", [])):
        _tool(tool, f"tools[{at}]")


def in_camel_case(content: JsonDict) -> JsonDict:
    """The API accepts both spellings of its own names."""
    parts = [
        {
            _camel(kind): {_camel(name): value for name, value in data.items()} if isinstance(data, dict) else data
            for kind, data in part.items()
        }
        for part in content.get("parts") or ()
    ]
    return {**content, "parts": parts}


def _without_names(content: JsonDict) -> JsonDict:
    """Vertex AI knows the names of files; the Gemini API refuses them."""
    nameless = [
        {
            k: {n: v for n, v in data.items() if n != "displayName"} if isinstance(data, dict) else data
            for k, data in p.items()
        }
        for p in content["parts"]
    ]
    return {**content, "parts": nameless}


def _require_known(value: JsonDict, known: set[str], where: str) -> None:
    for name in value.keys() - known:
        raise BadRequest(f"Invalid JSON payload received. Unknown name \"{name}\" at '{where}': Cannot find field.")


def _content(content: JsonDict, where: str) -> None:
    _require_known(content, {"role", "parts"}, where)
    if content.get("role") not in ("user", "model"):
        raise BadRequest("Please use a valid role: user, model.")
    _parts(content, where)


def _parts(content: JsonDict, where: str) -> None:
    if not content.get("parts"):
        raise BadRequest(f"* GenerateContentRequest.{where}.parts: contents.parts must not be empty.")
    for at, part in enumerate(content["parts"]):
        _part(part, f"{where}.parts[{at}]")


def _part(part: JsonDict, where: str) -> None:
    data = part.keys() & _DATA.keys()
    if len(data) != 1:
        raise BadRequest(f"* GenerateContentRequest.{where}.data: required oneof field 'data' must have one value")
    _require_known(part, {*data, *_BESIDE}, where)
    kind = data.pop()
    if kind != "text":
        _require_known(part[kind], _DATA[kind], f"{where}.{kind}")
    if kind == "functionResponse" and not isinstance(part[kind].get("response"), dict):
        raise BadRequest(f"* GenerateContentRequest.{where}.function_response.response: required")
    if kind in ("functionCall", "functionResponse") and part[kind].get("id", "").startswith("adk-"):
        raise BadRequest(f"{where}: an id that Gemini never gave")
    for text in (part.get("thoughtSignature"), part.get("inlineData", {}).get("data")):
        if text is not None:
            _base64(text, where)


def _base64(text: str, where: str) -> None:
    try:
        base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error:
        raise BadRequest(f"Invalid value at '{where}' (TYPE_BYTES), Base64 decoding failed") from None


def _order(contents: list[JsonDict]) -> None:
    """Calls follow a user's turn or results. Results follow their calls, with the same number and names."""
    before: JsonDict | None = None
    for content in contents:
        calls, results = _parts_of_kind(content, "functionCall"), _parts_of_kind(content, "functionResponse")
        if calls and (content["role"] != "model" or before is None or before["role"] != "user"):
            raise BadRequest(
                "Please ensure that function call turn comes immediately after a user turn or after a function "
                "response turn."
            )
        asked = _parts_of_kind(before, "functionCall") if before else []
        if results and not asked:
            raise BadRequest("Please ensure that function response turn comes immediately after a function call turn.")
        if asked and sorted(one["name"] for one in asked) != sorted(one["name"] for one in results):
            raise BadRequest(
                "Please ensure that the number of function response parts is equal to the number of function call "
                "parts of the function call turn."
            )
        before = content
    if before is not None and _parts_of_kind(before, "functionCall"):
        raise BadRequest("Please ensure that the last turn is no function call.")


def _parts_of_kind(content: JsonDict, kind: str) -> list[JsonDict]:
    return [part[kind] for part in content["parts"] if kind in part]


def _tool(tool: JsonDict, where: str) -> None:
    _require_known(tool, {"functionDeclarations", "googleSearch", "codeExecution", "urlContext"}, where)
    seen: set[str] = set()
    for spelled in tool.get("functionDeclarations", []):
        declared = {_camel(key): value for key, value in spelled.items()}  # the API accepts both spellings
        _require_known(
            declared,
            {"name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema"},
            where,
        )
        name = declared.get("name", "")
        if not _NAME.fullmatch(name):
            raise BadRequest(f"{where}: Invalid function name {name!r}.")
        if name in seen:
            raise BadRequest(f"{where}: Duplicate function declaration found: {name}")
        seen.add(name)
        schema = declared.get("parametersJsonSchema", {})
        if schema and schema.get("type") != "object":
            raise BadRequest(f"{where}: {name}'s parameters must be of type object")


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
