"""Onboarding: a workflow with a node that waits for a person. It needs google-adk 2, and no model.

Somebody writes the newcomer's name. The workflow asks which laptop to order, and then asks for approval before it
orders one. Run it with `examples/adk/onboarding/adk-confirm.toml`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from google.adk.events.request_input import RequestInput
from google.adk.workflow import START, FunctionNode, Workflow
from google.genai import types
from pydantic import BaseModel, Field


class Laptop(BaseModel):
    """What people fill in."""

    model: Literal["13 inch", "16 inch"]
    memory: int = Field(16, description="In GB.")


def newcomer(node_input: types.Content) -> str:
    return "".join(part.text or "" for part in node_input.parts or ()).strip()


def ask_for_laptop(node_input: str) -> Iterator[RequestInput]:
    yield RequestInput(message="Which laptop is it to be?", payload={"newcomer": node_input}, response_schema=Laptop)


def wanted(node_input: Laptop) -> dict[str, object]:
    return node_input.model_dump()


def order_laptop(model: str, memory: int) -> str:
    """Orders a laptop."""
    return f"Ordered: {model}, {memory} GB."


root_agent = Workflow(
    name="onboarding",
    edges=[
        (
            START,
            FunctionNode(func=newcomer),
            FunctionNode(func=ask_for_laptop),
            FunctionNode(func=wanted),
            FunctionNode(
                func=order_laptop, require_confirmation=True, rerun_on_resume=True, parameter_binding="node_input"
            ),
        )
    ],
)
