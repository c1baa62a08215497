"""The scripted model says what its script says, and nothing after that. How its lines read: every test of a run."""

from __future__ import annotations

import pytest

from adk_confirm.runtime.models.protocol import Model, ModelFailure, ModelRequest
from adk_confirm.runtime.models.scripted import ScriptedModel
from adk_confirm.runtime.wire import Content, FunctionCall, Part


async def said(model: ScriptedModel) -> Content:
    [whole] = [response async for response in model.generate(ModelRequest("m", [Content.of_text("Hello?")]))]
    assert whole.content is not None
    assert (whole.partial, whole.finish_reason) == (False, "STOP")
    return whole.content


async def test_lines_come_in_order_and_then_no_more() -> None:
    model = ScriptedModel("one", "two")
    assert isinstance(model, Model)
    assert [(await said(model)).text, (await said(model)).text] == ["one", "two"]
    with pytest.raises(ModelFailure, match="has no lines left: give it as many as it is asked") as caught:
        await said(model)
    assert caught.value.code == "SCRIPT_ENDED"


async def test_a_script_can_be_said_twice() -> None:
    line = Content(role="model", parts=[Part(function_call=FunctionCall(name="f"))])
    [asked] = (await said(ScriptedModel(line))).calls()
    asked.id = "adk-1"
    assert next(iter(line.calls())).id is None
