"""A tool's title: which templates are valid, and how it is announced."""

from __future__ import annotations

import pytest

from runtime.context import ToolContext
from runtime.jsontypes import JsonObject
from runtime.titles import TITLE_KEY, title_in
from runtime.tool import BadTool, FunctionTool


def deploy(service: str, env: str = "prod") -> str:
    return f"{service} {env}"


async def announced(title: object) -> object:
    tool = FunctionTool(deploy, title=title)  # type: ignore[arg-type]  # wrong ones are among them
    context = ToolContext.__new__(ToolContext)
    return (await tool.announced({"service": "checkout"}, context)).get(TITLE_KEY)


async def test_a_title_is_announced_with_the_schema_and_the_model_does_not_see_it() -> None:
    assert await announced("Deploy {service}") == "Deploy {service}"
    assert TITLE_KEY not in FunctionTool(deploy, title="Deploy {service}").declaration.schema
    assert await announced(None) is None


async def test_a_function_is_asked_with_the_defaults_and_holds_for_these_arguments_only() -> None:
    said = await announced(lambda service, env: f"Deploy {service} to {env} {{now}}")
    assert said == {"said": "Deploy checkout to prod {now}"}
    schema: JsonObject = {TITLE_KEY: {"said": "Deploy {now}"}}
    assert title_in(schema, edited=False) == "Deploy {{now}}"
    assert title_in(schema, edited=True) is None
    assert title_in({TITLE_KEY: 7}, edited=False) is None


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("Deploy {service", "lone brace"),
        ("Deploy {region}", "names region, which is not an argument"),
        ("Deploy {service!r}", "can only name arguments"),
        ("", "must not be empty"),
        (lambda region: region, "title of deploy takes region"),
    ],
)
def test_a_wrong_title_is_reported_where_the_tool_is_made(title: object, said: str) -> None:
    with pytest.raises(BadTool, match=said):
        FunctionTool(deploy, title=title)  # type: ignore[arg-type]  # as somebody may write it
