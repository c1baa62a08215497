"""One tool of an MCP server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from runtime.adk.type_checks import misfits, with_defaults
from runtime.bounded.check import SCHEMAS, BoundedCheck, CheckBroke, TooCostly
from runtime.context import ToolContext
from runtime.jsontypes import Json, JsonObject, is_deeper
from runtime.mcp.session import ToolFailed
from runtime.signature import BadArguments, Bound
from runtime.tool import Declaration

Caller = Callable[[str, JsonObject], Awaitable[JsonObject]]

_PROBLEMS = BoundedCheck(SCHEMAS)

LISTING_SECONDS = 1.0
DEEPEST = 64
_PATIENCE = 3


class McpTool:
    """A tool whose arguments are checked against the server's schema. The toolset's policy says whether people are
    asked."""

    hint: str | None = None
    idempotent = False  # the server's own claim is not enough

    checks_elsewhere = True
    """The schema comes from the server, so `bind` uses another process and blocks until that has answered."""

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

    @property
    def may_ask(self) -> bool:
        return self._held

    async def gated(self, args: JsonObject, context: ToolContext) -> bool:  # noqa: ARG002  (the protocol's)
        return self._held

    def bind(self, args: JsonObject, *, strict: bool = False) -> Bound:  # noqa: ARG002  (a schema is always strict)
        """The schema's defaults are sent like other arguments, since people see them. Names that it does not declare,
        at any depth, are refused: a server ignores them, and people would believe them."""
        whole = with_defaults(self.schema, args)
        problems = misfits(self.schema, args) | schema_problems(self.schema, whole)
        if problems:
            raise BadArguments(self.name, problems)
        return Bound(whole, tuple(name for name in whole if name not in args))

    async def run(self, args: JsonObject, context: ToolContext) -> Json:  # noqa: ARG002  (the protocol's)
        return result_of(await self._call(self.server_name, args))

    async def verify(self, args: JsonObject, context: ToolContext) -> Json:  # noqa: ARG002  (the protocol's)
        return None


def schema_problems(schema: JsonObject, args: JsonObject) -> dict[str, str]:
    """The problems of the arguments, by place."""
    try:
        problems = _PROBLEMS("arguments", schema, args)
    except (TooCostly, CheckBroke) as error:
        return {"arguments": f"cannot be checked against the schema that the server gives: {error}"}
    assert isinstance(problems, dict)
    return {where: str(problem) for where, problem in problems.items()}


def wrong_schemas(tools: Iterable[McpTool]) -> dict[str, str]:
    """The tools with invalid schemas, by name, with what is wrong. Takes up to seconds if the server wants that.

    Schemas are read once, so they get more time than a call's arguments. After several costly schemas, the rest get no
    time.
    """
    check, wrong, patience = BoundedCheck(SCHEMAS, LISTING_SECONDS), dict[str, str](), _PATIENCE
    try:
        for tool in tools:
            if not patience:
                wrong[tool.name] = "comes after others that take too long to check"
                continue
            if is_deeper(tool.schema, DEEPEST):  # held calls store the schema, and the database limits JSON
                wrong[tool.name] = f"is nested deeper than {DEEPEST} levels"
                continue
            try:
                if check("valid", tool.schema, None) is not True:
                    wrong[tool.name] = "is not valid"
            except TooCostly as error:
                patience -= 1
                wrong[tool.name] = f"is not read: {error}"
            except CheckBroke as error:
                wrong[tool.name] = f"is not valid: {error}"
    finally:
        check.close()
    return wrong


def result_of(answer: JsonObject) -> Json:
    """The structured content if there is any, otherwise the text; images and the like as data."""
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
