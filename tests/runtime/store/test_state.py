"""A session's state changes only where it is set."""

from __future__ import annotations

from runtime import Agent, Runner, ScriptedModel, ToolContext, call


async def test_a_value_changed_in_place_is_not_changed_behind_the_sessions_back(database_url: str) -> None:
    def remember(tool_context: ToolContext) -> str:
        notes = tool_context.state["notes"]
        assert isinstance(notes, list)
        notes.append("never set")
        return "ok"

    def keep(tool_context: ToolContext) -> str:
        notes = tool_context.state["notes"]
        assert isinstance(notes, list)
        tool_context.state["notes"] = [*notes, "set"]
        return "ok"

    model = ScriptedModel(call("remember"), "done", call("keep"), "done")
    async with Runner(Agent("a", model, tools=[remember, keep]), database_url) as runner:
        await runner.create_session(user_id="u", session_id="s", state={"notes": ["first"]})
        for said in ("remember", "keep"):
            assert [event async for event in runner.run(user_id="u", session_id="s", message=said)]

        session = await runner.get_session(user_id="u", session_id="s")

    assert session is not None
    assert session.state["notes"] == ["first", "set"]
