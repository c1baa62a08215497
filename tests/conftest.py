"""Every test of the store runs on both databases: ask for `database`, or for `database_url` to open it yourself."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from adk_confirm.runtime.store.database import Database
from adk_confirm.sandbox.server.delivery import Outbox
from adk_confirm.sandbox.workspace.tickets import Tickets
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.scratch import SCRATCH
from tests.support.stores import KEYS, lay_out, new_store
from tests.support.workers import forking

if TYPE_CHECKING:  # environments of older libraries run some tests, and have no browser
    from execnet import XSpec
    from playwright.async_api import Browser

# The same examples every time; a loaded machine is no finding. `make test EXAMPLES=thorough` tries four times as many.
_always = settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", _always, max_examples=25)
settings.register_profile("thorough", _always, max_examples=100)
settings.load_profile("quick")


# pytest puts its temporary directories there, those of pytest-xdist's workers too.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(SCRATCH))

WHERE_IT_HARDLY_MATTERS = ("database_url", "store")
"""Fixtures that give a test both databases. A test about the database asks for `either_url` or `either_store`."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[XSpec]) -> None:
    """Lets xdist fork its workers. One that starts anew spends four seconds of CPU on imports."""
    running = ExitStack()
    config.add_cleanup(running.close)
    command = running.enter_context(forking(config.invocation_params.args, SCRATCH))
    for spec in specs:
        spec.python = command


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`. Tests wait a lot, for databases and for processes: three of them keep about one core busy."""
    return 3 * (os.cpu_count() or 1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps the garbage collector from looking at what was imported and collected. These 600,000 objects stay until
    the end, and each full look at them takes a third of a second. It looks more seldom, too."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 50, 20)


def pytest_sessionfinish() -> None:
    """pytest looks for unraisable exceptions in the garbage, five times. Once is enough for what it finds here."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where the database hardly matters, PostgreSQL gets each test with the first of its cases: the others differ in
    something else. The mark `every_case` says that they do not."""
    seen, kept, left = set[str](), list[pytest.Item](), list[pytest.Item]()
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        again = any(params.get(name) == "postgresql" for name in WHERE_IT_HARDLY_MATTERS)
        if not again or item.get_closest_marker("every_case"):
            kept.append(item)
            continue
        test = item.nodeid.partition("[")[0]
        (left if test in seen else kept).append(item)
        seen.add(test)
    config.hook.pytest_deselected(items=left)
    items[:] = sorted(kept, key=_turn)


def _turn(item: pytest.Item) -> bool:
    """Browsers first: whoever begins a test in one last keeps everybody waiting at the end."""
    return not item.get_closest_marker("browser")


@pytest.fixture(scope="session", autouse=True)
def _slack_waits_for_a_busy_machine() -> None:
    """Slack gives an app three seconds to answer a click and to open a form. Tests do not measure how fast that is."""
    Tickets.trigger_lives = Outbox.ack_within = 30.0


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """A command that ran in this process has set up its logs, on a stderr that is the test's own."""
    root, excepthook, levels = logging.getLogger(), sys.excepthook, _levels()
    yield
    for handler in [one for one in root.handlers if type(one) is logging.StreamHandler]:
        root.removeHandler(handler)
    for logger in _levels() | levels:
        if logger.level != levels.get(logger, logging.NOTSET):  # setting one makes all forget what they worked out
            logger.setLevel(levels.get(logger, logging.NOTSET))
    sys.excepthook = excepthook


def _levels() -> dict[logging.Logger, int]:
    named = (one for one in logging.Logger.manager.loggerDict.values() if isinstance(one, logging.Logger))
    return {one: one.level for one in (logging.getLogger(), *named) if one.level}


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the session, started by the first test that needs it."""
    with postgres_server(SCRATCH) as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """A fresh database on the session's server."""
    with postgres.database() as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def sqlite_stocked(tmp_path: Path) -> str:
    """An empty store, its schemas up to date."""
    return new_store(tmp_path)


@pytest.fixture
def postgres_stocked(postgres: PostgresServer) -> Iterator[str]:
    with postgres.stocked(lay_out) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def blank_url(request: pytest.FixtureRequest) -> str:
    """A database in which nobody was yet."""
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path') / 'blank.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def either_url(request: pytest.FixtureRequest) -> str:
    """An empty store, its schemas up to date."""
    url: str = request.getfixturevalue("sqlite_stocked" if request.param == "sqlite" else "postgres_stocked")
    return url


@pytest.fixture
def database_url(either_url: str) -> str:
    return either_url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """An empty store, opened for writing, with the secret that the bot's ledger needs."""
    opened = await Database.open(database_url, context=KEYS)
    yield opened
    await opened.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One for the session; so its tests share the session's loop."""
    from tests.support.browser import chromium

    async with chromium() as running:
        yield running
