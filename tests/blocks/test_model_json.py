"""`as_json` gives the same result as the SDK's `to_dict`, in less time."""

from __future__ import annotations

import pytest
from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.basic_objects import JsonObject
from slack_sdk.models.blocks import (
    ActionsBlock,
    ButtonElement,
    ConfirmObject,
    ContextBlock,
    DividerBlock,
    HeaderBlock,
    MarkdownTextObject,
    Option,
    OverflowMenuElement,
    RichTextBlock,
    RichTextElementParts,
    RichTextSectionElement,
    StaticSelectElement,
)

from blocks.ids import Action
from blocks.kit import button, confirm, menu, plain_text
from blocks.model_json import as_json

MODELS = [
    DividerBlock(block_id="d"),
    HeaderBlock(text=plain_text("Deploy"), block_id="h"),
    ContextBlock(elements=[MarkdownTextObject(text="a *b*")], block_id="c"),
    RichTextBlock(elements=[RichTextSectionElement(elements=[])], block_id="empty"),
    RichTextBlock(
        elements=[
            RichTextSectionElement(
                elements=[
                    RichTextElementParts.Text(text="x", style=RichTextElementParts.TextStyle(bold=True)),
                    RichTextElementParts.User(user_id="U0ANN"),
                ]
            )
        ]
    ),
    ActionsBlock(
        elements=[
            button(Action.APPROVE, "Approve", "v", about="deploy", sure=confirm(("Sure?", "It runs."), "Approve")),
            menu([("History", "1"), ("See", "2")]),
            StaticSelectElement(action_id="s", options=[Option(value="1", text=plain_text("one"))]),
        ],
        block_id="a",
    ),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_as_the_sdk_draws_it(model: JsonObject) -> None:
    assert as_json(model) == model.to_dict()


@pytest.mark.parametrize(
    "model",
    [
        HeaderBlock(text=plain_text("x" * 151)),
        ActionsBlock(elements=[ButtonElement(text="x" * 76, action_id="a")]),
        ActionsBlock(elements=[ButtonElement(text="x", action_id="a", style="loud")]),
        ButtonElement(text="x", action_id="a", confirm=ConfirmObject(title="x" * 101, text="t")),
        ActionsBlock(elements=[OverflowMenuElement(action_id="a", options=[Option(value="v" * 152, text="t")])]),
    ],
    ids=["a title", "a button", "a style", "a dialog", "an option"],
)
def test_what_slack_would_refuse_is_refused_here(model: JsonObject) -> None:
    with pytest.raises(SlackObjectFormationError):
        as_json(model)
