"""A tool's title: which templates are valid, and how it is announced."""

from __future__ import annotations

import pytest

from adk_confirm.runtime.context import ToolContext
from adk_confirm.runtime.titles import title_after_edit
from adk_confirm.runtime.tool import BadTool, FunctionTool


def deploy(service: str, env: str = "prod") -> str:
    return f"{service} {env}"


async def title_of(title: object) -> str | None:
    tool = FunctionTool(deploy, title=title)  # type: ignore[arg-type]  # wrong ones are among them
    return await tool.title({"service": "checkout"}, ToolContext.__new__(ToolContext))


async def test_a_title_is_announced_with_the_call_and_the_model_does_not_see_it() -> None:
    assert await title_of("Deploy {service}") == "Deploy {service}"
    assert "title" not in FunctionTool(deploy, title="Deploy {service}").declaration.schema
    assert await title_of(None) is None


async def test_a_function_is_asked_with_the_defaults_and_holds_for_these_arguments_only() -> None:
    said = await title_of(lambda service, env: f"Deploy {service} to {env} {{now}}")
    assert said == "Deploy checkout to prod {{now}}"
    assert title_after_edit(said) is None
    assert title_after_edit("Deploy {service}") == "Deploy {service}"
    assert title_after_edit("Deploy {service!r}") is None


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
