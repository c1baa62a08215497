"""The runner's tests. Each has a store of its own, since a store belongs to one secret."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from adk_confirm import Agent, Runner
from tests.support.stores import new_store

_apps = count(1)

MakeRunner = Callable[..., Runner]


@pytest.fixture
def store(tmp_path: Path) -> str:
    """The URL of a store for runners. Where the database may matter, a file asks for `either_store`."""
    return new_store(tmp_path)


@pytest.fixture(params=["sqlite", "postgresql"])
def either_store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same, on either database."""
    if request.param == "sqlite":
        return new_store(tmp_path)
    url: str = request.getfixturevalue("postgres_stocked")
    return url


@pytest.fixture
def app() -> str:
    return f"app{next(_apps)}"


@pytest.fixture
async def run(store: str, app: str) -> AsyncIterator[MakeRunner]:
    """Makes a runner of the test's app on its store; closed at the end."""
    async with AsyncExitStack() as stack:

        def make(agent: Agent, **settings: Any) -> Runner:
            runner = Runner(agent, store, app_name=app, **settings)
            stack.push_async_callback(runner.close)
            return runner

        yield make
