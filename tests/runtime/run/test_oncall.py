"""The example agent, and the log of its tools."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adk_confirm import Agent, Content, ModelRequest, Runner
from adk_confirm.examples import offline, sentences
from adk_confirm.examples.oncall import agent as oncall
from adk_confirm.examples.oncall import plan_deploy
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.tool import Declaration
from tests.support.served import browsing, served
from tests.support.twins.client import Client, texts


@pytest.fixture
async def ada(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    monkeypatch.setenv("ADK_CONFIRM_DEMO_LOG", str(tmp_path / "log"))
    agent = Agent("oncall", offline.offline(), instruction=oncall.instruction, tools=oncall.tools)
    async with served(Runner(agent)) as url, browsing(url) as http:
        client = Client(http, "oncall")
        await client.create()
        yield client


def log(tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / "log"
    lines = path.read_text().splitlines() if path.exists() else []
    return [{k: v for k, v in json.loads(line).items() if k not in ("session", "call")} for line in lines]


async def said(client: Client, text: str) -> list[str]:
    return texts(await client.send({"role": "user", "parts": [{"text": text}]}))


async def approved(client: Client, number: int = -1, **answer: object) -> list[str]:
    return texts(await client.answer((client.request_id(number), {"confirmed": True, **answer})))


async def test_a_limit_in_the_reason_becomes_the_next_proposal(ada: Client, tmp_path: Path) -> None:
    await said(ada, "reimburse 1800 for the offsite")
    denial = {"confirmed": False, "payload": {"reason": "Max €1,200"}}
    [sentence] = texts(await ada.answer((ada.request_id(), denial)))
    assert sentence.endswith("The reason: Max €1,200. I try amount 1200 instead.")
    assert ada.asked[-1]["args"]["originalFunctionCall"]["args"] == {"purpose": "the offsite", "amount": 1200}
    assert log(tmp_path) == []
    await approved(ada)
    assert [line["amount"] for line in log(tmp_path)] == [1200]


async def test_several_wishes_at_once_are_several_requests(ada: Client, tmp_path: Path) -> None:
    wish = "reimburse 1,500 for food and drinks, and deploy checkout 2.4.1 to prod and what runs as search?"
    assert await said(ada, wish) == []
    names = [part["args"]["originalFunctionCall"]["name"] for part in ada.asked]
    assert names == ["reimburse", "deploy"]
    assert await approved(ada, 1) == []
    assert await approved(ada, 0) == [
        "I reimbursed 1500 for food and drinks. checkout 2.4.1 is on prod now. search runs in version 1.9.3."
    ]
    assert [line["tool"] for line in log(tmp_path)] == ["deploy", "reimburse"]


def test_a_preview_of_a_deployment_is_a_diff_of_what_runs_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADK_CONFIRM_DEMO_LOG", str(tmp_path / "log"))
    head = ["--- prod", "+++ prod", "@@ -1 +1 @@"]
    assert plan_deploy("Checkout", "2.4.1", "prod").split("\n") == [*head, "-checkout 2.4.0", "+checkout 2.4.1"]
    assert plan_deploy("checkout", "2.4.1", "staging").split("\n")[2:] == ["@@ -0,0 +1 @@", "+checkout 2.4.1"]
    (tmp_path / "log").write_text('{"tool": "deploy", "service": "Checkout", "version": "2.4.1", "env": "prod"}\n')
    assert plan_deploy("checkout", "2.4.1", "prod") == "Nothing would change: checkout 2.4.1 runs on prod."
    assert "-checkout 2.4.1" in plan_deploy("checkout", "2.4.2", "prod")


def reimburse(amount: float, purpose: str) -> tuple[str, JsonObject]:
    return "reimburse", {"purpose": purpose, "amount": amount}


def deploy(service: str, version: str, env: str = "prod") -> tuple[str, JsonObject]:
    return "deploy", {"service": service, "version": version, "env": env}


def days_off(days: int) -> tuple[str, JsonObject]:
    return "request_time_off", {"days": days}


MUG_AND_SPOON: JsonObject = {
    "customer": "Ada",
    "lines": [{"item": "the mug", "amount": 20}, {"item": "the spoon", "amount": 5}],
}


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("<@U1> reimburse $1,234.50 for a keyboard!", [reimburse(1234.5, "a keyboard")]),
        ("Reimburse 2.000 € for travel", [reimburse(2000, "travel")]),
        ("please reimburse €1,500 for dinner", [reimburse(1500, "dinner")]),
        ("could you reimburse me 1.5k for travel?", [reimburse(1500, "travel")]),
        ("I'd like 80 reimbursed for the taxi", [reimburse(80, "the taxi")]),
        ("reimburse the team dinner, 1500 euros", [reimburse(1500, "the team dinner")]),
        ("deploy api-v2 v10.0.1", [deploy("api-v2", "10.0.1")]),
        ("deploy version 2.4.1 of checkout", [deploy("checkout", "2.4.1")]),
        ("deploy checkout 2.4.1 to prod and tell the others", [deploy("checkout", "2.4.1")]),
        ("deploy checkout 2.4.1 and payments 1.0 to prod", [deploy("checkout", "2.4.1"), deploy("payments", "1.0")]),
        (
            "roll out checkout 2.4.1 to production, search 2.0 to staging",
            [deploy("checkout", "2.4.1"), deploy("search", "2.0", "staging")],
        ),
        (
            "deploy checkout 2.4.1 to both staging and production",
            [deploy("checkout", "2.4.1", "staging"), deploy("checkout", "2.4.1")],
        ),
        (
            "deploy checkout 2.4.1 to staging, then to live and reimburse 20 for tea",
            [deploy("checkout", "2.4.1", "staging"), deploy("checkout", "2.4.1"), reimburse(20, "tea")],
        ),
        ("i’d say: one day off", [days_off(1)]),
        ("3 days off", [days_off(3)]),
        ("can I have two weeks off please?", [days_off(10)]),
        ("refund €20 to Ada for the mug and 5 for the spoon", [("refund", MUG_AND_SPOON)]),
        (
            "reimburse 1500 for food and drinks, deploy checkout 2.4.1; and then I need 3 days off. Who's on call?",
            [
                *(reimburse(1500, "food and drinks"), deploy("checkout", "2.4.1"), days_off(3)),
                ("lookup", {"topic": "on-call"}),
            ],
        ),
        ("reimburse for nothing", []),
        ("", []),
    ],
)
def test_how_sentences_are_understood(text: str, calls: list[tuple[str, JsonObject]]) -> None:
    assert [(call.name, call.args) for call in sentences.understand(text)] == calls


@pytest.mark.parametrize(
    ("text", "example"),
    [
        ("reimbrse 1500 for the team dinner", "reimburse 1500 for the team dinner"),
        ("deplyo checkout 2.4.1 to prod", "deploy checkout 2.4.1 to prod"),
        ("deploy checkout", "deploy checkout 2.4.1 to prod"),
        ("refund Ada", "refund Ada 20 for the mug"),
    ],
)
async def test_what_is_nearly_a_wish_is_answered_with_an_example(ada: Client, text: str, example: str) -> None:
    assert await said(ada, text) == [f"I did not understand that. Say it like this: “{example}”."]
    assert ada.asked == []


async def test_what_is_left_out_is_reported_and_the_rest_is_done(ada: Client, tmp_path: Path) -> None:
    first, second = await said(ada, "reimburse 40 for the taxi and deploy checkout")
    assert first == "I did not understand all of that. Say it like this: “deploy checkout 2.4.1 to prod”."
    assert second == "I reimbursed 40 for the taxi. People are asked about more than 1,000."


def test_each_agent_offers_what_it_has_tools_for() -> None:
    def hello(*tools: str) -> object:
        declared = [Declaration(tool, "", {}) for tool in tools]
        return offline.reply(ModelRequest("", [Content.of_text("hello")], tools=declared))

    assert hello("deploy") == "I can do this: “deploy checkout 2.4.1 to prod”, and several at once with “and”."
    assert hello("transfer_money") == "Without a model I can do nothing here: set GOOGLE_API_KEY."


def test_with_a_key_it_thinks_with_gemini(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    assert not isinstance(offline.model(), str)
    monkeypatch.setenv("GEMINI_API_KEY", "x")
    assert offline.model() == "gemini-2.5-flash"
