"""Which tools of google-adk may ask people, for `check` and `explain`."""

from __future__ import annotations

import pytest
from google.adk.agents import LlmAgent
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.exit_loop_tool import exit_loop
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.google_search_tool import google_search
from google.adk.tools.load_memory_tool import load_memory_tool
from google.adk.tools.tool_context import ToolContext

from adk_confirm.bot.config.settings import AgentSettings
from adk_confirm.bot.ops.findings import google_may_ask, tools_of
from adk_confirm.runtime.adk.type_checks import declared

pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself


def deploy(service: str) -> str:
    return service


def ask(service: str, context: ToolContext) -> str:
    context.request_confirmation(hint="Really?")
    return service


class Own(BaseTool):
    """Does what it likes."""


@pytest.mark.parametrize(
    ("tool", "asks"),
    [
        (FunctionTool(deploy), False),
        (FunctionTool(deploy, require_confirmation=True), True),
        (FunctionTool(ask), True),
        (FunctionTool(exit_loop), False),
        (google_search, False),
        (load_memory_tool, False),
        (AgentTool(LlmAgent(name="payer", model="gemini-2.5-flash")), False),
        (Own(name="own", description=""), True),
    ],
)
def test_whether_a_tool_may_ask(tool: object, asks: bool) -> None:
    assert google_may_ask(tool) is asks


async def test_a_tool_that_runs_commands_asks_by_itself() -> None:
    bash = pytest.importorskip("google.adk.tools.bash_tool")
    assert google_may_ask(bash.ExecuteBashTool()) is True


async def test_the_tools_of_agents_that_others_run() -> None:
    pytest.importorskip("google.adk.workflow")
    found = await tools_of(AgentSettings(target="tests.support.foreign.shapes:branches_in_turn__resumable"))
    assert found is not None
    assert [(name, tool.may_ask, declared(tool.schema or {})) for name, tool in found.items()] == [
        ("deploy", True, {"": False, "service": False})
    ]
