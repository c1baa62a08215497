"""The bot in front of our own API, which it recognises by its title."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.adk.cli.api_server import RunAgentRequest
from google.adk.cli.conformance.adk_web_server_client import AdkWebServerClient
from google.adk.events.event import Event
from google.genai import types

from adk_confirm import Agent, FunctionTool, Runner, ScriptedModel, call
from adk_confirm.bot.hosts.adk_host import AdkHost
from adk_confirm.bot.hosts.plugin import OUR_PORT
from adk_confirm.bot.hosts.remote import RemoteServer
from adk_confirm.runtime.rest.guard import Guard
from adk_confirm.runtime.store.database import Database
from tests.support.foreign.alone import ran
from tests.support.foreign.ours import agent
from tests.support.foreign.tools import deploy
from tests.support.foreign.visit import Visit
from tests.support.office import IN_CI_ON_BOTH, Opens
from tests.support.served import served

ASK = "adk_request_confirmation"


@pytest.fixture
async def visit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sqlite_url: str) -> AsyncIterator[Visit]:
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))
    database = await Database.open(sqlite_url)
    async with served(Runner(agent("clerk"), database)) as url:
        host = AdkHost(RemoteServer(url, "clerk"))
        yield Visit(host)
        await host.close()
    await database.close()


async def test_what_it_promises_is_counted_on(visit: Visit) -> None:
    abilities = await visit.host.capabilities()
    assert abilities.name.startswith("adk-confirm's own API")
    assert abilities.notes == (OUR_PORT,)


@IN_CI_ON_BOTH
async def test_a_wrong_token_is_said_in_the_thread_with_whom_it_concerns(
    open_office: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLERK_TOKEN", "not the one")
    async with served(Runner(agent("clerk")), guard=Guard.of("127.0.0.1", "the one and only token")) as url:
        target = f'url = "{url}"\napp = "clerk"\ntoken_env = "CLERK_TOKEN"'
        async with open_office(target=target) as at:
            said = await at.ann.says("@adk-confirm hello", at.deploys)
            wrong = "the value of ADK_CONFIRM_API_TOKEN; check [agent] token_env and headers."
            await at.sees(said, f"{wrong} Whoever runs this app has to mend that.")
            await at.later(minutes=5)
            assert at.ann.sees(at.deploys, thread=said).count("can't be used") == 1


async def test_a_gated_tool_s_arguments_may_be_edited(visit: Visit) -> None:
    request = await visit.asks("please deploy search")
    assert request.can_edit
    assert request.tool_schema is not None
    assert request.tool_schema["required"] == ["service"]
    await visit.approve(request, payload={"service": "mail"})
    assert ran() == [{"tool": "deploy", "service": "mail"}]


async def test_the_client_that_google_adk_has_for_its_own_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads our sessions and events with google-adk's own models, which take no field that they do not know."""
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))
    async with served(Runner(agent("clerk"))) as url, AdkWebServerClient(base_url=url) as client:
        assert "version" in await client.get_version_data()
        session = await client.create_session(app_name="clerk", user_id="ann", state={"team": "search"})

        async def run(*parts: types.Part) -> list[Event]:
            message = types.Content(role="user", parts=list(parts))
            asked = RunAgentRequest(app_name="clerk", user_id="ann", session_id=session.id, new_message=message)
            return [event async for event in client.run_agent(asked)]

        events = await run(types.Part(text="please deploy search"))
        (asking,) = [call for event in events for call in event.get_function_calls() if call.name == ASK]
        assert asking.id in {one for event in events for one in event.long_running_tool_ids or ()}
        given = types.FunctionResponse(id=asking.id, name=ASK, response={"confirmed": True})
        resumed = await run(types.Part(function_response=given))
        assert resumed[-1].is_final_response()
        stored = await client.get_session(app_name="clerk", user_id="ann", session_id=session.id)
        assert [event.id for event in stored.events if event.author == "clerk"] == [
            event.id for event in (*events, *resumed) if not event.partial
        ]
        assert stored.state["team"] == "search"
        await client.update_session(
            app_name="clerk", user_id="ann", session_id=session.id, state_delta={"team": "mail"}
        )
        await client.delete_session(app_name="clerk", user_id="ann", session_id=session.id)
    assert ran() == [{"tool": "deploy", "service": "search"}]


async def test_a_preview_that_has_changed_is_asked_about_anew_with_what_was_approved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))
    live = ["2.4.0"]

    def plan(service: str) -> str:
        return f"{service} {live[-1]} → 2.4.1"

    previewing = Agent(
        "clerk",
        ScriptedModel(call("deploy", service="search"), "Done."),
        tools=[FunctionTool(deploy, require_confirmation=True, preview=plan)],
    )
    async with served(Runner(previewing)) as url:
        host = AdkHost(RemoteServer(url, "clerk"))
        visit = Visit(host)
        first = await visit.asks("go")
        assert (first.preview, first.approved_preview) == ({"shows": "search 2.4.0 → 2.4.1"}, None)
        live.append("2.3.9")
        await visit.approve(first)
        (anew,) = await visit.requests()
        assert ran() == []
        assert (anew.preview, anew.approved_preview) == ({"shows": "search 2.3.9 → 2.4.1"}, first.preview)
        await visit.approve(anew)
        await host.close()
    assert ran() == [{"tool": "deploy", "service": "search"}]
