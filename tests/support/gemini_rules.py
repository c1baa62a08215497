"""The rules of the Gemini API for a request. As there, whatever breaks a rule gets a 400."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Any

JsonDict = dict[str, Any]

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
