"""`adk-confirm answer`, with `adk-confirm api` in a process of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from adk_confirm import Agent, FunctionTool, Runner, ScriptedModel, call
from adk_confirm.bot.cli import main
from tests.support.dialogue import Chat
from tests.support.foreign.kinds import KINDS
from tests.support.foreign.rig import Foreign
from tests.support.foreign.visit import Visit

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Foreign]:
    (kind,) = [kind for kind in KINDS if kind.name == "ours"]
    with kind.served(tmp_path) as started:
        yield started


def asked(server: Foreign, text: str) -> str:
    """The id of the request that follows."""

    async def ask() -> str:
        visit = Visit(server.host())
        try:
            return (await visit.asks(text)).request_id
        finally:
            await visit.host.close()

    return asyncio.run(ask())


def answered(server: Foreign, *arguments: str) -> int:
    return main(["answer", "--store", server.env["SESSIONS"], "--url", server.url, *arguments])


def test_a_call_is_approved_once_from_the_command_line(server: Foreign, capsys: pytest.CaptureFixture[str]) -> None:
    request = asked(server, "please pay 1500")
    assert answered(server, request, "--approve", "--as", "ann") == 0
    assert 'clerk: I got [["reimburse", {"paid": 1500}]]' in capsys.readouterr().out
    assert answered(server, request, "--approve") == 0
    assert capsys.readouterr().out == "Nothing changed: it was answered before.\n"
    assert answered(server, request, "--deny") == 2
    assert "was already approved" in capsys.readouterr().err
    assert server.ran() == [{"tool": "reimburse", "amount": 1500}]


def test_a_denial_has_a_reason_and_an_edit_new_arguments(server: Foreign, capsys: pytest.CaptureFixture[str]) -> None:
    assert answered(server, asked(server, "please pay 1500"), "--deny", "--reason", "Too much") == 0
    assert "Too much" in capsys.readouterr().out
    edited = asked(server, "please pay 1500")
    assert answered(server, edited, "--edit", '{"amount": "much"}') == 2
    assert "amount" in capsys.readouterr().err
    assert answered(server, edited, "--edit", '{"amount": 1200}', "--as", "ann", "--json") == 0
    events = json.loads(capsys.readouterr().out)["events"]
    assert {event["customMetadata"]["answeredBy"] for event in events} == {"ann"}
    assert server.ran() == [{"tool": "reimburse", "amount": 1200}]


def test_slacks_calls_are_not_answered_from_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran, store = list[str](), f"sqlite:///{tmp_path / 'bot.db'}"

    def deploy() -> None:
        ran.append("deployed")

    async def ask() -> str:
        agent = Agent("clerk", ScriptedModel(call("deploy")), tools=[FunctionTool(deploy, require_confirmation=True)])
        async with Runner(agent, store, desk="slack-") as runner:
            return (await Chat(runner, session="slack-1").say("Deploy it")).request.id

    assert main(["answer", asyncio.run(ask()), "--approve", "--store", store]) == 2
    assert "was asked about in Slack: only people there decide on it" in capsys.readouterr().err
    assert ran == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["adk-1"], "Say one of --approve, --deny and --edit JSON."),
        (["adk-1", "--approve", "--edit", "{}"], "Say one of --approve, --deny and --edit JSON."),
        (["adk-1", "--edit", "[1]"], "--edit is not a JSON object: it is a list"),
        (["adk-1", "--deny"], "No sessions of this store have a request adk-1: nothing was sent."),
        (["adk-1", "--deny", "--store", "sqlite:///none.db"], "`adk-confirm api` makes it when it first starts."),
    ],
)
def test_what_can_not_be_answered_is_one_sentence(
    server: Foreign, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert answered(server, *arguments) == 2
    assert said in capsys.readouterr().err


def test_an_api_that_is_not_there_is_said(server: Foreign, capsys: pytest.CaptureFixture[str]) -> None:
    request = asked(server, "please pay 1500")
    server.kill()
    assert answered(server, request, "--approve") == 2
    assert "Start `adk-confirm api`, or name it with --url." in capsys.readouterr().err
    server.start()
    assert answered(server, request, "--approve") == 0
    assert server.ran() == [{"tool": "reimburse", "amount": 1500}]


class _Page(BaseHTTPRequestHandler):
    body = b""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None: ...


def test_a_web_server_that_is_no_api_is_said(
    server: Foreign, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    request, other = asked(server, "please pay 1500"), HTTPServer(("127.0.0.1", 0), _Page)
    url = f"http://127.0.0.1:{other.server_port}"
    for body in (b"<h1>It works!</h1>", b'{"ok": true}', b"{}", b"null", b'[{"author": 1}]'):
        monkeypatch.setattr(_Page, "body", body)
        Thread(target=other.handle_request, daemon=True).start()
        assert main(["answer", request, "--approve", "--store", server.env["SESSIONS"], "--url", url]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"adk-confirm answer: No API answers at {url}: it is no address of one. Start"), said
    other.server_close()
