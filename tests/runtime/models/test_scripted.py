"""The scripted model says what its script says."""

from __future__ import annotations

from typing import Any

import pytest

from adk_confirm.runtime.models.protocol import Model, ModelFailure, ModelRequest, ModelResponse
from adk_confirm.runtime.models.scripted import ScriptedModel, call
from adk_confirm.runtime.wire import Content, FunctionCall, Part


async def ask(model: ScriptedModel, text: str = "Hello?", *, streaming: bool = False) -> list[ModelResponse]:
    request = ModelRequest("m", [Content.of_text(text)], streaming=streaming)
    return [response async for response in model.generate(request)]


async def said(model: ScriptedModel, text: str = "Hello?") -> Content:
    [whole] = await ask(model, text)
    assert whole.content is not None
    assert (whole.partial, whole.finish_reason) == (False, "STOP")
    return whole.content


REIMBURSE = FunctionCall(name="reimburse", args={"amount": 1500})


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("Hello.", [Part(text="Hello.")]),
        (call("reimburse", amount=1500), [Part(function_call=REIMBURSE)]),
        (["I pay.", call("reimburse", amount=1500)], [Part(text="I pay."), Part(function_call=REIMBURSE)]),
        ((REIMBURSE, REIMBURSE), [Part(function_call=REIMBURSE)] * 2),
        (Content(role="model", parts=[Part(text="Hm.", thought=True)]), [Part(text="Hm.", thought=True)]),
        (lambda request: f"You said {request.contents[-1].text}", [Part(text="You said Hello?")]),
    ],
)
async def test_a_line_becomes_an_answer(line: Any, parts: list[Part]) -> None:
    assert await said(ScriptedModel(line)) == Content(role="model", parts=parts)


async def test_lines_come_in_order_and_then_no_more() -> None:
    model = ScriptedModel("one", "two")
    assert isinstance(model, Model)
    assert [(await said(model)).text, (await said(model)).text] == ["one", "two"]
    with pytest.raises(ModelFailure, match="has no lines left: give it as many as it is asked") as caught:
        await ask(model)
    assert caught.value.code == "SCRIPT_ENDED"


async def test_streaming_gives_the_text_line_by_line_and_then_the_whole() -> None:
    *pieces, whole = await ask(ScriptedModel(["one\ntwo", call("f")]), streaming=True)
    assert [(piece.partial, piece.content and piece.content.text) for piece in pieces] == [
        (True, "one\n"),
        (True, "two"),
    ]
    assert whole.content is not None
    assert (whole.partial, whole.content.text, [c.name for c in whole.content.calls()]) == (False, "one\ntwo", ["f"])


async def test_a_script_can_be_said_twice() -> None:
    line = Content(role="model", parts=[Part(function_call=FunctionCall(name="f"))])
    first = await said(ScriptedModel(line))
    assert first.parts is not None
    assert first.parts[0].function_call is not None
    first.parts[0].function_call.id = "adk-1"
    assert next(iter(line.calls())).id is None
