"""One tool of an MCP server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from runtime.context import ToolContext
from runtime.jsontypes import Json, JsonObject
from runtime.mcp_session import ToolFailed
from runtime.signature import BadArguments
from runtime.tool import Declaration

Caller = Callable[[str, JsonObject], Awaitable[JsonObject]]

_LONGEST_PROBLEM = 200


class McpTool:
    """Checked against the schema that the server gives; asked about when the toolset's policy says so."""

    hint: str | None = None
    idempotent = False  # a server's own word for it is not enough

    def __init__(self, described: JsonObject, *, prefix: str, held: bool, call: Caller) -> None:
        self.server_name = str(described["name"])
        self.name = prefix + self.server_name
        schema = described.get("inputSchema")
        self.schema: JsonObject = schema if isinstance(schema, dict) else {"type": "object"}
        self.declaration = Declaration(self.name, str(described.get("description") or ""), self.schema)
        self._held = held
        self._call = call

    def __repr__(self) -> str:
        return f"McpTool({self.name})"

    async def gated(self, args: JsonObject, context: ToolContext) -> bool:  # noqa: ARG002  (the protocol's)
        return self._held

    def check(self, args: JsonObject, *, amended: bool = False) -> None:
        problems = schema_problems(self.schema, args)
        if amended:
            problems |= _unknown(self.schema, args)
        if problems:
            raise BadArguments(self.name, problems)

    async def run(self, args: JsonObject, context: ToolContext) -> Json:  # noqa: ARG002  (the protocol's)
        return result_of(await self._call(self.server_name, args))

    async def verify(self, args: JsonObject, context: ToolContext) -> Json:  # noqa: ARG002  (the protocol's)
        return None


def schema_problems(schema: JsonObject, args: JsonObject) -> dict[str, str]:
    """What does not fit, by the place where. References leave the schema for nowhere: nothing is fetched."""
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types
    from jsonschema.validators import validator_for  # type: ignore[import-untyped]  # it ships no types
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    validator: Any = validator_for(schema, default=Draft202012Validator)(schema, registry=Registry())
    problems: dict[str, str] = {}
    try:
        for error in validator.iter_errors(args):
            where = ".".join(str(step) for step in error.absolute_path) or "arguments"
            if error.validator == "required":
                missing = next((name for name in error.validator_value if name not in error.instance), "")
                place = f"{where}.{missing}" if error.absolute_path else str(missing)
                problems.setdefault(place, "is missing")
            else:
                problems.setdefault(where, str(error.message)[:_LONGEST_PROBLEM])
    except Unresolvable as error:
        problems["arguments"] = f"cannot be checked, since the schema refers to something that is not there: {error}"
    return problems


def schema_is_sound(schema: JsonObject) -> bool:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]  # it ships no types
    from jsonschema.validators import validator_for

    try:
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except SchemaError:
        return False
    return True


def _unknown(schema: JsonObject, args: JsonObject) -> dict[str, str]:
    """Names that people made up. JSON Schema lets them pass unless it is told otherwise; an edit should not."""
    if schema.get("additionalProperties") or schema.get("patternProperties"):
        return {}
    properties = schema.get("properties")
    names = set(properties) if isinstance(properties, dict) else set()
    known = ", ".join(sorted(names)) or "none"
    return dict.fromkeys(sorted(set(args) - names), f"is not an argument (there are: {known})")


def result_of(answer: JsonObject) -> Json:
    """Structured content if there is any, else the text; pictures and the like as the data they are."""
    blocks = answer.get("content")
    content: list[Json] = blocks if isinstance(blocks, list) else []
    texts = [block["text"] for block in content if isinstance(block, dict) and block.get("type") == "text"]
    text = "\n".join(str(one) for one in texts)
    if answer.get("isError"):
        raise ToolFailed(text or "The tool failed and did not say why.")
    structured = answer.get("structuredContent")
    if structured is not None:
        return structured
    if len(texts) == len(content):
        return text
    return {"content": content}
