"""What may be the target of `[agent]` besides a plain agent of google-adk, and the services that it gets."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from adk_confirm.bot.config.settings import AgentSettings
from adk_confirm.bot.confirmation.confirmation import OutcomeKind
from adk_confirm.bot.hosts.open_host import open_host
from adk_confirm.bot.store.open import open_store
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.target import BadTarget
from adk_confirm.runtime.wire import SessionId
from tests.support.foreign import targets
from tests.support.foreign.alone import ran
from tests.support.foreign.visit import Visit
from tests.support.stores import SECRET, new_store

pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself

ROOT = Path(__file__).parents[3]
TARGETS = "tests.support.foreign.targets"
YAML = f"""\
agent_class: SequentialAgent
name: yaml_desk
sub_agents:
  - code: {TARGETS}.archivist
"""


@pytest.fixture(autouse=True)
def log_of_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))


@asynccontextmanager
async def visiting(agent: AgentSettings, room: Path) -> AsyncIterator[Visit]:
    store = new_store(room)
    database = await open_store(store, SECRET)
    host = await open_host(agent, database, store_url=store)
    try:
        yield Visit(host, SessionId(host.app, "slack-T1-U0ANN", "slack-T1-C1-1.1"))
    finally:
        await host.close()
        await database.close()


async def test_artifacts_and_memory_are_there_as_on_googles_own_server(tmp_path: Path) -> None:
    async with visiting(AgentSettings(target=f"{TARGETS}:archivist"), tmp_path) as visit:
        request = await visit.asks("please deploy search")
        await visit.approve(request)
        assert (await visit.outcome(request)).text == '{"version":0}'
    assert ran() == [{"tool": "deploy", "service": "search", "version": 0, "memories": 0}]
    assert [*(tmp_path / "store-adk-artifacts").rglob("note.txt*")]


async def test_a_service_of_ones_own_takes_the_place_of_the_default(tmp_path: Path) -> None:
    services = {
        "artifact_service": f"{TARGETS}:OWN_ARTIFACTS",
        "memory_service": "memory://",
        "credential_service": "google.adk.auth.credential_service.in_memory_credential_service:"
        "InMemoryCredentialService",
    }
    async with visiting(AgentSettings(target=f"{TARGETS}:archivist", **services), tmp_path) as visit:
        await visit.approve(await visit.asks("please deploy search"))
    assert ran()
    assert not (tmp_path / "store-adk-artifacts").exists()
    assert list(targets.OWN_ARTIFACTS.artifacts)


@pytest.mark.parametrize(
    ("services", "said"),
    [
        ({"artifact_service": "ftp://user:hush@files"}, "google-adk does not support ftp:// here"),
        ({"memory_service": f"{TARGETS}:OWN_ARTIFACTS"}, "BaseMemoryService is needed"),
        ({"artifact_service": "nowhere:service"}, "There is no module 'nowhere'"),
    ],
)
async def test_an_object_that_is_not_a_service_is_refused_in_one_sentence(
    services: dict[str, str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(BadTarget) as error:
        async with visiting(AgentSettings(target=f"{TARGETS}:archivist", **services), tmp_path):
            raise AssertionError
    assert said in str(error.value)
    assert "hush" not in str(error.value)


async def test_services_of_google_adk_are_for_its_agents_only(tmp_path: Path) -> None:
    agent = AgentSettings(target="adk_confirm.examples.oncall:agent", artifact_service="memory://")
    with pytest.raises(Invalid, match="artifact_service is for agents of google-adk"):
        async with visiting(agent, tmp_path):
            raise AssertionError


async def test_a_workflow_by_itself_is_a_target(tmp_path: Path) -> None:
    async with visiting(AgentSettings(target=f"{TARGETS}:flow"), tmp_path) as visit:
        assert visit.host.app == "flow"
        request = await visit.asks("1500")
        assert request.tool == "pay"
        await visit.approve(request)
    assert ran() == [{"tool": "pay", "amount": 1500}]


async def test_a_folder_with_a_root_agent_yaml_is_a_target(tmp_path: Path) -> None:
    folder = tmp_path / "yaml_desk"
    folder.mkdir()
    (folder / "root_agent.yaml").write_text(YAML)
    async with visiting(AgentSettings(target=str(folder)), tmp_path) as visit:
        assert visit.host.app == "yaml_desk"
        await visit.approve(await visit.asks("please deploy search"))
    assert [line["service"] for line in ran()] == ["search"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (None, "There is no folder"),
        ({}, "could not be loaded: ValueError: No root_agent found"),
        ({"root_agent.yaml": "agent_class: LlmAgent"}, "could not be loaded"),
        ({"__init__.py": "", "agent.py": "1 / 0"}, "ZeroDivisionError"),
    ],
)
async def test_a_folder_without_an_agent_is_one_sentence(
    files: dict[str, str] | None, said: str, tmp_path: Path
) -> None:
    folder = tmp_path / f"empty_desk_{len(files or {})}_{len(said)}"
    for name, text in (files or {}).items():
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    if files == {}:
        folder.mkdir()
    with pytest.raises(BadTarget, match=said) as error:
        async with visiting(AgentSettings(target=str(folder)), tmp_path):
            raise AssertionError
    assert "\n" not in str(error.value)


async def test_agents_that_follow_each_other_do_so_after_an_approval(tmp_path: Path) -> None:
    """google-adk ends such a turn with its first approval unless the app is resumable: the one that we make is."""
    async with visiting(AgentSettings(target=f"{TARGETS}:in_turn"), tmp_path) as visit:
        for agent in ("first", "second"):
            (request,) = [await visit.asks("please deploy search")] if agent == "first" else await visit.requests()
            assert request.agent == agent
            await visit.approve(request)
            assert (await visit.became(request)) is OutcomeKind.DONE
        assert (await visit.host.capabilities()).notes == ()
    assert len(ran()) == 2


@pytest.mark.slow
async def test_commands_pass_on_none_of_google_adk_s_warnings_about_itself(tmp_path: Path) -> None:
    (tmp_path / "adk-confirm.toml").write_text(f'[agent]\ntarget = "{TARGETS}:archivist"\n')
    checking = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "adk_confirm.bot.cli", "check"),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src", "DATABASE_URL": new_store(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, warned = await checking.communicate()
    assert b"is archivist, on google-adk" in said
    assert warned == b""
