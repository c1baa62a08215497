"""Agents of google-adk 2 that wait for people in other ways than `adk_request_confirmation`, as targets of `[agent]`.

An agent reads a message as the amount, or the words, that it works with. Each effect leaves a line in the log.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from fastapi.openapi.models import APIKey, APIKeyIn
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.auth.auth_tool import AuthConfig
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import BaseModel, Field

from tests.support.foreign.tools import log
from tests.support.foreign.wishes import IMITATED, imitation

with warnings.catch_warnings(), suppress(ImportError):  # google-adk 1 has no workflows
    warnings.simplefilter("ignore")
    from google.adk import workflow
    from google.adk.apps import App, ResumabilityConfig
    from google.adk.events.request_input import RequestInput

SECRET = "shared by both, and by nobody else"


class Trip(BaseModel):
    """The schema of a question about a trip."""

    days: int = Field(description="Nights do not count.")
    hotel: bool
    note: str = ""


def said(node_input: types.Content) -> str:
    return "".join(part.text or "" for part in node_input.parts or [])


def amount(node_input: types.Content) -> dict[str, int]:
    return {"amount": int(said(node_input))}


def about_trip(node_input: str) -> Any:
    yield RequestInput(message="How long is the trip?", payload={"to": node_input}, response_schema=Trip)


def about_number(node_input: str) -> Any:
    yield RequestInput(message="How many?", response_schema={"type": "integer"})


def about_anything(node_input: str) -> Any:
    yield RequestInput(message="What shall I write?")


def book(node_input: Any) -> str:
    """Books with the answer."""
    kept = node_input.model_dump() if isinstance(node_input, BaseModel) else node_input
    log("book", answer=kept, kind=type(kept).__name__)
    return f"booked {kept!r}"


def pay(amount: int) -> dict[str, int]:
    """Pays."""
    log("pay", amount=amount)
    return {"paid": amount}


def pay_quietly(amount: int) -> None:
    """Pays, and returns nothing."""
    log("pay_quietly", amount=amount)


def pay_in_vain(amount: int) -> dict[str, int]:
    """Raises an error."""
    log("pay_in_vain", amount=amount)
    raise RuntimeError("the bank is down")


def report(topic: str) -> dict[str, str]:
    """Begins a report."""
    log("report", topic=topic)
    return {"status": "pending", "ticket": "T-1"}


def adk_request_passport(reason: str) -> None:
    """A pause that no version of this app knows."""
    log("passport", reason=reason)


def read_calendar(day: str, tool_context: ToolContext) -> dict[str, object]:
    """Reads the calendar of whoever signs in."""
    scheme = APIKey.model_validate({"type": "apiKey", "name": "X-Api-Key", "in": APIKeyIn.header})
    needed = AuthConfig(auth_scheme=scheme, credential_key="calendar")
    credential = tool_context.get_auth_response(needed)
    if credential is None:
        tool_context.request_credential(needed)
        return {"pending": True}
    log("calendar", day=day, key=credential.api_key)
    return {"events": ["standup"]}


class Calls(BaseLlm):
    """Calls one tool with the words of the message, then repeats its result."""

    tool: str
    key: str
    more: dict[str, Any] = Field(default_factory=dict)

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002  (it never does)
    ) -> AsyncGenerator[LlmResponse, None]:
        last = (llm_request.contents[-1].parts or [types.Part(text="")])[-1]
        if last.function_response is not None:
            part = types.Part(text=f"I got {last.function_response.response}")
        elif (last.text or "").startswith("Nobody "):
            part = types.Part(text=f"I heard: {last.text}")
        else:
            part = types.Part.from_function_call(name=self.tool, args={self.key: last.text or "", **self.more})
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def calling(tool: Any, key: str) -> LlmAgent:
    return LlmAgent(name="clerk", model=Calls(model="calls", tool=tool.name, key=key), tools=[tool])


class Imitates(Calls):
    """Makes one call of a name that no tool has, although google-adk does not show it that it did."""

    made: bool = False

    async def generate_content_async(
        self,
        llm_request: LlmRequest,  # noqa: ARG002  (it reads nothing)
        stream: bool = False,  # noqa: ARG002  (it never does)
    ) -> AsyncGenerator[LlmResponse, None]:
        part = (
            types.Part(text="Nobody was there.")
            if self.made
            else types.Part.model_validate({"function_call": imitation(self.tool)})
        )
        self.made = True
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def imitating(name: str, secret: str | None = None) -> App:
    model = Imitates(model="imitates", tool=name, key="")
    return app(LlmAgent(name="clerk", model=model, tools=[FunctionTool(report)]), secret=secret)


def gated_calendar(how: str) -> App:
    tool = FunctionTool(read_calendar, require_confirmation=True)
    return app(calling(tool, "day"), resumable=how == "_resumable", secret=SECRET if how == "_signed" else None)


def shell() -> LlmAgent:
    """google-adk's own tool, which asks about each command with a hint alone."""
    from google.adk.tools.bash_tool import ExecuteBashTool

    return calling(ExecuteBashTool(), "command")


def clicker() -> LlmAgent:
    """A tool for a computer: the model itself says that people should be asked, and why."""
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.computer_use.computer_use_tool import ComputerUseTool

    class Click(ComputerUseTool):
        """As its toolset gives it to the model."""

        async def process_llm_request(self, **given: Any) -> None:
            await BaseTool.process_llm_request(self, **given)

    decides = {"decision": "require_confirmation", "explanation": "This buys the ticket."}
    tool = Click(func=click_on, screen_size=(1000, 1000))
    model = Calls(model="calls", tool="click_on", key="button", more={"safety_decision": decides})
    return LlmAgent(name="clerk", model=model, tools=[tool])


def click_on(button: str) -> dict[str, str]:
    """Clicks."""
    log("click_on", button=button)
    return {"clicked": button}


def in_turn() -> SequentialAgent:
    first = calling(FunctionTool(pay_in_words, require_confirmation=True), "words")
    last = calling(FunctionTool(report), "topic")
    first.name, last.name = "payer", "reporter"
    return SequentialAgent(name="in_turn", sub_agents=[first, last])


def nested() -> LlmAgent:
    """An agent used as a tool, whose own tool needs an approval."""
    payer = calling(FunctionTool(pay_in_words, require_confirmation=True), "words")
    payer.name = "payer"
    return LlmAgent(name="front", model=Calls(model="calls", tool="payer", key="request"), tools=[AgentTool(payer)])


def pay_in_words(words: str) -> dict[str, str]:
    """Pays."""
    log("pay_in_words", words=words)
    return {"paid": words}


def flow(*nodes: Any) -> Any:
    return workflow.Workflow(name="flow", edges=[(workflow.START, *nodes)])


def app(root: Any, *, resumable: bool = False, secret: str | None = None, open_tools: tuple[str, ...] = ()) -> App:
    from adk_confirm import ConfirmationPlugin

    plugins: list[Any] = [ConfirmationPlugin(secret=secret, open_tools=open_tools)] if secret else []
    config = ResumabilityConfig(is_resumable=True) if resumable else None
    return App(name=root.name, root_agent=root, resumability_config=config, plugins=plugins)


def function_node(function: Callable[..., Any] = pay) -> Any:
    return workflow.FunctionNode(
        func=function, rerun_on_resume=True, require_confirmation=True, parameter_binding="node_input"
    )


def tool_node() -> Any:
    return FunctionTool(pay, require_confirmation=True)


def asks_model(**schema: Any) -> LlmAgent:
    from google.adk.tools._request_input_tool import request_input

    more = {"response_schema": schema} if schema else {}
    model = Calls(model="calls", tool="adk_request_input", key="message", more=more)
    return LlmAgent(name="clerk", model=model, tools=[request_input])


def offers_choice() -> LlmAgent:
    from google.adk.tools.get_user_choice_tool import get_user_choice_tool

    model = Calls(model="calls", tool="get_user_choice", key="about", more={"options": ["red", "blue"]})
    return LlmAgent(name="clerk", model=model, tools=[get_user_choice_tool])


SIGNED: dict[str, str | None] = {"": None, "_signed": SECRET}

MADE: dict[str, Callable[[], object]] = {
    "trip": lambda: app(flow(said, about_trip, book)),
    "trip_resumable": lambda: app(flow(said, about_trip, book), resumable=True),
    "trip_signed": lambda: app(flow(said, about_trip, book), secret=SECRET),
    "number": lambda: app(flow(said, about_number, book)),
    "anything": lambda: app(flow(said, about_anything, book)),
    "model": lambda: app(asks_model()),
    "model_number": lambda: app(asks_model(type="integer")),
    "choice": lambda: app(offers_choice()),
    "choice_signed": lambda: app(offers_choice(), secret=SECRET),
    "function": lambda: app(flow(amount, function_node(), book)),
    "function_resumable": lambda: app(flow(amount, function_node(), book), resumable=True),
    "function_signed": lambda: app(flow(amount, function_node(), book), resumable=True, secret=SECRET),
    "quiet": lambda: app(flow(amount, function_node(pay_quietly))),
    "in_vain": lambda: app(flow(amount, function_node(pay_in_vain), book)),
    "tool": lambda: app(flow(amount, tool_node(), book)),
    "agent_tool": lambda: app(nested()),
    "in_turn_bare": lambda: app(in_turn()),
    "in_turn_resumable": lambda: app(in_turn(), resumable=True),
    **{f"bash{how}": partial(lambda secret: app(shell(), secret=secret), secret) for how, secret in SIGNED.items()},
    **{
        f"computer{how}": partial(lambda secret: app(clicker(), secret=secret), secret)
        for how, secret in SIGNED.items()
    },
    "reporting_resumable": lambda: app(calling(LongRunningFunctionTool(report), "topic"), resumable=True),
    "reporting_signed": lambda: app(calling(LongRunningFunctionTool(report), "topic"), secret=SECRET),
    "reporting": lambda: app(calling(LongRunningFunctionTool(report), "topic")),
    "calendar": lambda: app(calling(FunctionTool(read_calendar), "day")),
    **{f"calendar_gated{how}": partial(gated_calendar, how) for how in ("", "_resumable", "_signed")},
    "calendar_signed": lambda: app(calling(FunctionTool(read_calendar), "day"), secret=SECRET),
    "calendar_open_signed": lambda: app(
        calling(FunctionTool(read_calendar), "day"), secret=SECRET, open_tools=("adk_request_credential",)
    ),
    **{f"imitating_{name}": partial(imitating, name) for name in IMITATED},
    **{f"imitating_{name}_signed": partial(imitating, name, SECRET) for name in IMITATED},
    "passport": lambda: app(calling(LongRunningFunctionTool(adk_request_passport), "reason")),
}


def __getattr__(name: str) -> object:
    if name not in MADE:
        raise AttributeError(name)
    return MADE[name]()
