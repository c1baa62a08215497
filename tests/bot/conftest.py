"""An office that a test opens with its own policies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.backoffice import Backoffice, backoffice
from tests.support.office import Office, Opens, empty_store, office
from tests.support.talking import Mouth
from tests.support.talking import mouth as the_mouth

pytest.register_assert_rewrite("tests.support.foreign.scenes")


@pytest.fixture(params=["sqlite"])
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty store. Both databases run all SQL in the tests of `store`, `ops` and `worker`, and what is marked
    `ON_EITHER` or `IN_CI_ON_BOTH`: people and replicas that meet at once."""
    return empty_store(request)


@pytest.fixture
def sqlite_url(sqlite_stocked: str) -> str:
    """A store with its tables: no test of the bot lays them out again."""
    return sqlite_stocked


@pytest.fixture
def socket() -> bool:
    """Whether Slack reaches the bot through Socket Mode. A test marked `BOTH_WAYS` runs with and without."""
    return False


@pytest.fixture
def open_office(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, socket: bool) -> Opens:
    return partial(office, database_url, tmp_path / "tools.log", monkeypatch, time_moves=True, socket=socket)


@pytest.fixture
async def at(request: pytest.FixtureRequest, open_office: Opens) -> AsyncIterator[Office]:
    """An office that is open, with what the test's mark `office` says of it."""
    mark = request.node.get_closest_marker("office") or pytest.mark.office.mark
    async with open_office(*mark.args, **mark.kwargs) as opened:
        yield opened


@pytest.fixture
async def back(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Backoffice]:
    """A store with a team's work in it, and the command line beside it: nobody is in Slack."""
    async with backoffice(database_url, tmp_path, monkeypatch, capsys) as opened:
        yield opened


@pytest.fixture
def mouth() -> Mouth:
    """What the agent of `tests.support.talking` says, from nothing on."""
    return the_mouth.begins_anew()
