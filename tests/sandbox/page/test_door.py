"""Who may use the page: this machine's browser, from the page itself, as a person of the workspace. Needs no
browser."""

from __future__ import annotations

import json
import logging

import aiohttp
import pytest
from aiohttp import web

from tests.sandbox.page.conftest import Scene

pytestmark = pytest.mark.asyncio(loop_scope="session")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)


async def ask(
    scene: Scene, path: str, body: object = None, *, method: str = "", headers: dict[str, str] | None = None
) -> tuple[int, str, dict[str, str]]:
    data = None if body is None else body if isinstance(body, str) else json.dumps(body)
    kind = {"Content-Type": "application/json"} if data is not None else {}
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            method or ("GET" if data is None else "POST"),
            f"{scene.slack.base}{path}",
            data=data,
            headers=kind | (headers or {}),
        ) as answer,
    ):
        text = (await answer.content.read(4000)).decode()
        return answer.status, text, dict(answer.headers)


async def do(scene: Scene, gesture: str, as_: str, **body: object) -> tuple[int, str]:
    status, text, _ = await ask(scene, f"/sandbox/do/{gesture}", {"as": as_, **body})
    return status, text


@pytest.mark.parametrize(
    "path", ["/", "/page/main.js", "/page/style/theme.css", "/page/icon.svg", "/archives/C1/p1", "/sandbox/feed"]
)
async def test_everything_of_the_page_comes_with_its_policy(scene: Scene, path: str) -> None:
    status, _, headers = await ask(scene, path)
    assert status == 200
    assert headers["Content-Security-Policy"] == POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/page/../page.py", "/page/%2e%2e/page.py", "/page/nothing.js", "/page/"])
async def test_nothing_but_the_page_is_handed_out(scene: Scene, path: str) -> None:
    status, text, _ = await ask(scene, path)
    assert status == 404
    assert "import" not in text


@pytest.mark.parametrize("path", ["/", "/sandbox/feed", "/sandbox/items/1", "/page/main.js"])
@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Host": "127.0.0.1.evil.example:3030"}, {"Host": "10.0.0.7:3030"},
     {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"}],
)  # fmt: skip
async def test_nobody_from_elsewhere_reads(scene: Scene, path: str, headers: dict[str, str]) -> None:
    status, text, _ = await ask(scene, path, headers=headers)
    assert status == 403
    assert "sandbox" in text


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"},
     {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}],
)  # fmt: skip
async def test_no_page_elsewhere_acts(scene: Scene, headers: dict[str, str]) -> None:
    body = {"as": scene.dana.id, "channel": scene.deploys.id, "text": "hello from evil"}
    status, _, _ = await ask(scene, "/sandbox/do/say", body, headers=headers)
    assert status == 403
    assert "evil" not in scene.dana.sees(scene.deploys)
    status, _, _ = await ask(scene, "/sandbox/do/say", body, headers={"Origin": scene.slack.base})
    assert status == 200


async def test_it_listens_on_loopback_and_says_what_it_is(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    assert scene.slack.base.startswith("http://127.0.0.1:")
    with caplog.at_level(logging.WARNING):
        served = scene.slack.routes()
        runner = web.AppRunner(served)
        await runner.setup()
        await runner.cleanup()
    assert "can act as anybody. Not for production." in caplog.text
    _, text, _ = await ask(scene, "/")
    assert "Not for production." in text


async def test_only_people_who_are_there_can_be_anybody(scene: Scene) -> None:
    gone = scene.slack.person("gone", deleted=True)
    for nobody in ("", "U0NOBODY", gone.id, scene.slack.install.bot_user_id):
        status, text = await do(scene, "say", nobody, channel=scene.deploys.id, text="hello")
        assert (status, json.loads(text)) == (404, {"error": "There is no person with this id here."})
    _, text, _ = await ask(scene, f"/sandbox/feed?as={gone.id}")  # a browser that remembers an earlier sandbox
    assert f'"me": "{scene.dana.id}"' in text


@pytest.mark.parametrize(
    ("gesture", "body", "status", "sentence"),
    [
        ("say", {"text": "  "}, 400, "There is nothing to send yet."),
        ("say", {"text": "x", "shout": True}, 400, "shout: Extra inputs are not permitted."),
        ("say", {"text": 5}, 400, "text: Input should be a valid string."),
        ("edit", {"ts": "1.000001", "text": "x"}, 404, "There is no message 1.000001 in deploys."),
        ("dance", {}, 404, "There is no such gesture."),
        ("command", {"command": "/nope"}, 404, "/nope is not a valid command."),
    ],
)
async def test_what_makes_no_sense_is_refused_in_a_sentence(
    scene: Scene, gesture: str, body: dict[str, object], status: int, sentence: str
) -> None:
    found, text = await do(scene, gesture, scene.dana.id, channel=scene.deploys.id, **body)
    assert (found, json.loads(text)) == (status, {"error": sentence})


@pytest.mark.parametrize(("body", "sentence"), [("{", "This is not JSON."), ("[1]", "A gesture is a JSON object.")])
async def test_a_body_that_is_no_gesture(scene: Scene, body: str, sentence: str) -> None:
    status, text, _ = await ask(scene, "/sandbox/do/say", body)
    assert (status, json.loads(text)) == (400, {"error": sentence})


async def test_nobody_reaches_what_is_not_theirs(scene: Scene) -> None:
    secret = scene.slack.channel("secret", scene.olu, private=True)
    said = await scene.olu.says("psst", secret, files={"a.txt": b"psst"})
    posted = await scene.app.client.chat_postEphemeral(channel=scene.deploys.id, user=scene.olu.id, text="for olu")
    for gesture, body in (
        ("say", {"channel": secret.id, "text": "x"}),
        ("read", {"channel": secret.id}),
        ("join", {"channel": secret.id}),
        ("edit", {"channel": secret.id, "ts": said.ts, "text": "x"}),
        ("delete", {"channel": scene.deploys.id, "ts": posted["message_ts"]}),
        ("command", {"channel": secret.id, "command": "/approvals"}),
    ):
        status, text = await do(scene, gesture, scene.max.id, **body)
        assert status in (403, 404), (gesture, text)
    file = next(iter(scene.slack.workspace.files))
    assert (await ask(scene, f"/sandbox/files/{file}?as={scene.max.id}"))[0] == 404
    assert (await ask(scene, f"/sandbox/files/{file}"))[0] == 403
    assert (await ask(scene, f"/sandbox/files/{file}?as={scene.olu.id}"))[:2] == (200, "psst")
    mine = await scene.dana.says("mine", scene.deploys)
    status, text = await do(scene, "edit", scene.max.id, channel=scene.deploys.id, ts=mine.ts, text="yours")
    assert (status, json.loads(text)["error"]) == (403, "People can change their own messages only.")


async def test_a_form_is_its_own_persons(scene: Scene) -> None:
    await scene.app.asks(scene.deploys.id, "")
    card = await scene.olu.finds("to prod?", scene.deploys)
    await scene.olu.clicks(card, "Deny…")
    modal = await scene.olu.gets_modal("Deny")
    status, text = await do(scene, "submit", scene.max.id, view=modal.view.id, values={})
    assert (status, json.loads(text)["error"]) == (403, "This view is somebody else's.")
    status, text = await do(scene, "enter", scene.olu.id, view=modal.view.id, block_id="nothing", value="x")
    assert (status, json.loads(text)["error"]) == (
        404, "This form has just changed, and the field is gone. Look at the new version."
    )  # fmt: skip
    await scene.app.redraws(scene.app.view)
    status, text = await do(
        scene, "act", scene.olu.id, channel=card.channel, ts=card.ts, block_id="gone", action_id="gone"
    )
    assert "what you clicked is gone" in text
