"""The bot's host in front of the real servers, each in its own language (`tests/servers`). The table in
docs/servers.md is written from here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import pytest

from adk_confirm.bot.confirmation.confirmation import OutcomeKind
from adk_confirm.bot.confirmation.outcome import kind_of
from adk_confirm.bot.hosts.host import DeliveryUnknown
from adk_confirm.bot.hosts.host_events import ABORTED
from adk_confirm.bot.hosts.remote import RemoteServer
from adk_confirm.runtime.adk.signing import PluginSays
from adk_confirm.runtime.wire import FunctionCall, SessionId
from tests.support.foreign.kinds import IN_PROCESS, KINDS, Kind
from tests.support.foreign.rig import Foreign
from tests.support.foreign.scenes import RESTARTS, SCENES, Scene, given_as_it_takes_them
from tests.support.programs import PROGRAMS
from tests.support.waiting import until

DOCS = Path(__file__).parents[3] / "docs" / "servers.md"


class Running:
    """Each kind is started once, by the first test that needs it."""

    def __init__(self, room: Path, stack: ExitStack) -> None:
        self._room, self._stack = room, stack
        self._servers: dict[str, Foreign] = {}

    def server(self, kind: Kind) -> Foreign:
        if kind.name not in self._servers:
            self._servers[kind.name] = self._stack.enter_context(kind.served(self._room / kind.name))
        server = self._servers[kind.name]
        if server.process is None:
            server.start()
        server.count_anew()
        return server


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with ExitStack() as stack:
        yield Running(tmp_path_factory.mktemp("servers"), stack)


@pytest.fixture
async def at(kind: Kind, running: Running) -> AsyncIterator[Scene]:
    opened = Scene(kind, running.server(kind))
    yield opened
    for host in opened.hosts:
        await host.close()


def cases() -> Iterator[object]:
    """Fast are those with our stand-in, and those with one real server that need neither a restart of it nor another
    server."""
    for kind in KINDS:
        for name in SCENES:
            if name in kind.never or (kind.like and name not in RESTARTS):
                continue
            fast = kind.quick or (kind.usual and name not in (*RESTARTS, "timed_out", "mcp"))
            marks = [] if fast else [pytest.mark.slow, pytest.mark.timeout(600)]
            yield pytest.param(kind, name, marks=marks, id=f"{kind.name}-{name}")


@pytest.mark.parametrize(("kind", "name"), [*cases()])
async def test_scene(at: Scene, name: str) -> None:
    _, play = SCENES[name]
    await play(at)


def google_s() -> Iterator[object]:
    """Fast is the one with a real server that the scenes start, too."""
    for kind in KINDS:
        if kind.name.startswith("adk-"):
            yield pytest.param(kind, marks=[] if kind.usual else pytest.mark.slow, id=kind.name)


@pytest.mark.parametrize("app", ["clerk", "front", "fork"])
@pytest.mark.parametrize("kind", [*google_s()])
async def test_the_plugin_is_asked_without_any_effect(at: Scene, app: str) -> None:
    """A server without the plugin refuses the question by itself, before an agent or its model gets anything."""
    host = at.server.host(app)
    at.hosts.append(host)
    ask = (await host.capabilities()).ask_plugin
    assert ask is not None
    assert await ask() is (PluginSays.OPEN if at.kind.name.endswith("-plugin") else None)
    assert isinstance(host.server, RemoteServer)
    session = SessionId(app, "adk-confirm", "check-again")
    said = await host.server.why_not(session, FunctionCall(id="1", name="any"))
    assert "User message cannot contain function calls" in said
    assert await host.server.events(session) is None
    sessions = f"{at.server.url}/apps/{app}/users/adk-confirm/sessions"
    async with aiohttp.ClientSession() as http, http.get(sessions) as left:
        assert await left.json() == []


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [one for one in KINDS if one.name == "go"])
async def test_a_branch_of_adk_go_takes_the_answers_of_all(at: Scene) -> None:
    """What docs/servers.md warns of: a tool that was approved once runs twice, or the server breaks off, about every
    third time. Once this fails, ADK Go has #1357: take `TWICE` from its kind, and the warning from there."""
    for _ in range(60):
        visit = at.visit("fork")
        at.server.count_anew()
        await visit.say("please deploy a and deploy b")
        try:
            await given_as_it_takes_them(visit, *await visit.requests())
        except DeliveryUnknown:
            return
        ran = [str(one) for one in at.ran("deploy")]
        assert set(ran) == {"a", "b"}
        if len(ran) > 2:
            return
    pytest.fail("no call ran twice")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [one for one in KINDS if one.name == "adk-2-resumable"])
async def test_what_google_adk_writes_after_a_hang_up_decides_nothing(at: Scene) -> None:
    """It answers every open call of the run with an error, also the request that still waits."""
    word = at.server.holds()
    visit, impatient = at.visit(), at.visit()
    impatient.session = visit.session
    await visit.say(f"please linger {word} and deploy search")
    slow, waiting = await visit.requests()
    approving = asyncio.create_task(impatient.approve(slow))
    await at.server.has_begun(word)
    approving.cancel()

    async def closes_the_run() -> bool:
        return ABORTED in str(await at.hosts[0].server.events(visit.session))

    await until(closes_the_run)
    look = await visit.host.look(visit.session)
    assert (look.requests, look.said) == ((waiting,), ())
    assert [(request, kind_of(one)) for request, one in look.calls.items()] == [
        (slow.request_id, OutcomeKind.UNKNOWN),
        (waiting.request_id, None),
    ]
    await visit.approve(waiting)
    assert at.ran("deploy") == ["search"]
    at.server.go_on(word)


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_machine_without_their_tools_is_no_excuse_in_ci(
    monkeypatch: pytest.MonkeyPatch, name: str, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CI", ci)
    (kind,) = [kind for kind in KINDS if kind.name == name]
    with pytest.raises(outcome, match=f"not installed: the real ADK server in {name} is not tested"):
        kind.command()


# The table

PARTS = {
    "In the bot's process, and our own API": ("ours-in-process", "adk-in-process", "ours"),
    "google-adk 2": ("adk-2", "adk-2-database", "adk-2-resumable", "adk-2-plugin"),
    "google-adk 1": ("adk-1.39", "adk-1.39-database", "adk-1.39-plugin"),
    "Other languages": ("js", "go", "java", "rust"),
}


LIKE = "tried with what a restart changes. All else is as with a database, since only the store of sessions differs"


def table() -> str:
    """What works with which server, as these tests have it."""
    notes: list[str] = []

    def mark(word: str, note: str | None) -> str:
        if note is None:
            return word
        if note not in notes:
            notes.append(note)
        return f"{word} [{notes.index(note) + 1}]"

    def cell(kind: Kind, name: str) -> str:
        if name in kind.lacks:
            return mark("no", kind.lacks[name])
        return mark("–", kind.never[name]) if name in kind.never else mark("yes", kind.how.get(name))

    def part(title: str, of_part: Sequence[Kind]) -> str:
        found = {what: [cell(kind, name) for kind in of_part] for name, (what, _) in SCENES.items()}
        rows = [f"| {what} | {' | '.join(cells)} |" for what, cells in found.items() if {*cells} != {"yes"}]
        titles = [mark(kind.title, LIKE if kind.like else None) for kind in of_part]
        head = f"| | {' | '.join(titles)} |\n|---|{'---|' * len(of_part)}"
        return f"### {title}\n\n{head}\n" + "\n".join(rows)

    kinds = [kind for kind in (*IN_PROCESS, *KINDS) if kind.title]
    parts = {title: [kind for kind in kinds if kind.name in names] for title, names in PARTS.items()}
    assert sum(len(of_part) for of_part in parts.values()) == len(kinds)
    drawn = [
        "What was tried with each:",
        "\n".join(f"- {what}" for what, _ in SCENES.values()),
        "All of it works, except for what these tables name. Each has the rows in which not every cell is a plain yes.",
        *(part(title, of_part) for title, of_part in parts.items()),
        "\n".join(f"{number}. {note}" for number, note in enumerate(notes, 1)),
    ]
    return "\n\n".join(drawn) + "\n"


def test_the_table_in_the_documents_is_this_one() -> None:
    """`make golden` writes it anew."""
    begin, end = MARKS
    text = DOCS.read_text()
    if os.environ.get("UPDATE_GOLDEN"):
        text = text[: text.index(begin) + len(begin)] + f"\n{table()}" + text[text.index(end) :]
        DOCS.write_text(text)
    assert text[text.index(begin) + len(begin) : text.index(end)] == f"\n{table()}"


MARKS = ("<!-- written by the tests: begin -->", "<!-- written by the tests: end -->")
