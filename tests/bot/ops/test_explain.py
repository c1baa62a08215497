"""`adk-confirm explain` says what a policy file means, without a store and without Slack."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from adk_confirm.bot.cli import main
from adk_confirm.bot.store.known_names import keep_names
from adk_confirm.bot.store.open import open_store
from tests.support.stores import SECRET

FILE = """
[[policy]]
tools = ["deploy*"]
when = "args.env == 'prod'"
approvers = ["group:S0ONCALL", "email:cto@example.com", "python:my.rota:on_call", "user:U0LEFT"]
quorum = 2
remind_after = "10m"
escalate_after = "20m"
escalate_to = ["group:S0LEADS"]
expires_after = "1h"
start_within = "15m"
edit = ["version", "token"]
deny_reason = "required"
redact = ["secret*"]
max_denials = 2
grant = "30m"
grant_on = ["service"]
channel = "C0DEPLOYS"
barred = ["user:U0LEFT"]
shared_channels = true

[[policy]]
tools = ["*"]
when = "asker == 'U0OTHER'"
approvers = ["user:U0OTHER"]

[[policy]]
tools = ["refund", "deploy*"]
approvers = ["user:U0LEAD"]
allow_requester = "speakers"
edit = false

[[policy]]
tools = ["lookup"]
"""


@pytest.fixture
def explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Explained:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    (tmp_path / "adk-confirm.toml").write_text(FILE)
    return Explained(capsys)


class Explained:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> list[str]:
        assert main(["explain", *arguments]) == code
        said = self._capsys.readouterr()
        self.warned = said.err
        return said.out.splitlines()

    def refusal(self, *arguments: str) -> str:
        assert main(["explain", *arguments]) == 2
        said = self._capsys.readouterr()
        assert said.out == ""
        return said.err


def test_all_that_a_policy_means(explained: Explained) -> None:
    call = '{"env": "prod", "version": "2.4.1", "secret_key": "hunter2hunter2", "note": "fine"}'
    said = explained("--tool", "deploy_api", "--args", call, "--asker", "U0ASKER")
    assert said == [
        "Policy 1 (line 2) applies to this call (tools deploy*; when args.env == 'prod').",
        "2 people have to approve. One Deny is enough to stop it.",
        "Who may decide: members of the group S0ONCALL; the account with the address cto@example.com; "
        "those whom this function names: my.rota:on_call.",
        "After 20 min also: members of the group S0LEADS.",
        "May not, even if named above: user:U0LEFT.",
        "Nobody who spoke to the agent in the session may approve, U0ASKER included; they may deny.",
        "A reminder comes after 10 min.",
        "Without a decision it expires after 1 h.",
        "Once approved, it must start within 15 min, or it does not run.",
        "A Deny needs a reason.",
        "After 2 denials of this tool in a session within 10 minutes, nobody is asked.",
        "It may be posted in a channel that is shared with another company.",
        "Given with --args: env prod, version 2.4.1, secret_key ••••, note fine.",
        "Hidden everywhere: 1 value, by redact = [secret*].",
        "May be edited: version, token (not in this call).",
        "Approvers may also allow the next calls like this one for 30 min: the same tool with the same service.",
        "The card goes to C0DEPLOYS.",
    ]


def test_a_warning_is_shown_where_it_concerns_the_call(
    capsys: pytest.CaptureFixture[str], explained: Explained
) -> None:
    warning = "Warning: policy 4 (line 33): names no approvers: every call that it covers is refused\n"
    for tool, code, said in (("refund", 0, ""), ("lookup", 1, warning)):
        assert main(["explain", "--tool", tool]) == code
        assert capsys.readouterr().err == said


def test_why_none_of_those_before(explained: Explained) -> None:
    said = explained("--tool", "deploy_api", "--args", '{"env": "test"}')
    assert said[0] == "Policy 3 (line 27) applies to this call (tools refund, deploy*)."
    assert said[-2:] == [
        "Policy 1 (line 2) does not apply: its `when` is false: args.env == 'prod'",
        "Policy 2 (line 22) does not apply: its `when` is false: asker == 'U0OTHER'",
    ]
    assert "Who asked for it may not approve; others who spoke to the agent may." in said
    assert "May be edited: nothing." in said
    assert explained("--tool", "refund")[-2] == "Policy 1 (line 2) does not apply: its tools are deploy*"
    assert "May be edited: every argument." in explained("--tool", "refund", "--asker", "U0OTHER")
    assert explained("--tool", "refund", "--asker", "U0OTHER")[0] == (
        "Policy 2 (line 22) applies to this call (tools *; when asker == 'U0OTHER')."
    )


async def test_people_and_groups_are_named_and_an_unknown_tool_is_refused(explained: Explained) -> None:
    store = await open_store("sqlite:///adk-confirm.db", SECRET)
    await store.run(keep_names, {"U0LEE": "lee", "S0ONCALL": "@oncall"})
    await store.close()
    Path("adk-confirm.toml").write_text(f'[agent]\ntarget = "adk_confirm.examples.oncall:agent"\n{FILE}')
    whole = '{"env": "prod", "service": "checkout", "version": "2.4.1"}'
    call = ("--tool", "deploy_api", "--args", whole, "--asker", "U0LEE")
    refused = await asyncio.to_thread(explained.refusal, *call)
    assert refused == "adk-confirm explain: The agent has no tool deploy_api. Did you mean deploy?\n"
    said = await asyncio.to_thread(explained, "--tool", "deploy", *call[2:])
    assert "Who may decide: members of the group @oncall (S0ONCALL); " in said[2]
    assert "Nobody who spoke to the agent in the session may approve, lee (U0LEE) included; they may deny." in said


def test_a_tool_that_asks_nobody(explained: Explained) -> None:
    Path("adk-confirm.toml").write_text(f'[agent]\ntarget = "adk_confirm.examples.oncall:agent"\n{FILE}')
    said = explained("--tool", "lookup", code=1)
    assert said[0] == "lookup has no gate: the agent runs it without asking. If it asked, this would hold:"
    small = explained("--tool", "reimburse", "--args", '{"purpose": "the hotel", "amount": 500}', code=1)
    assert small[0] == "reimburse looks at each call itself before it asks. If it asks, this holds:"


def test_tools_of_a_server_can_not_be_looked_for_and_that_is_said(explained: Explained) -> None:
    Path("adk-confirm.toml").write_text(f'[agent]\nurl = "http://adk:8000"\napp = "clerk"\n{FILE}')
    assert explained("--tool", "refnd", code=1)
    assert explained.warned == "The agent's tools can't be listed, so nobody looked for refnd: it is on a server.\n"


def test_a_policy_decides_on_the_arguments_that_the_tool_gets(explained: Explained) -> None:
    """After defaults and coercion, as the runtime stores and shows them."""
    Path("mine.py").write_text(
        "from adk_confirm import Agent, FunctionTool\n"
        "def deploy(service: str, replicas: int, env: str = 'prod') -> str: return service\n"
        "agent = Agent('mine', tools=[FunctionTool(deploy, require_confirmation=True)])\n"
    )
    Path("adk-confirm.toml").write_text(f'[agent]\ntarget = "mine:agent"\n{FILE}')
    said = explained("--tool", "deploy", "--args", '{"service": "checkout", "replicas": "3"}')
    assert said[0] == "Policy 1 (line 4) applies to this call (tools deploy*; when args.env == 'prod')."
    assert [line for line in said if "--args" in line or "Assumed" in line] == [
        "Given with --args: service checkout, replicas 3.",
        "Assumed, from the tool's defaults: env prod.",
    ]
    assert explained.warned == ""
    said = explained("--tool", "deploy", "--args", '{"service": "checkout"}', code=2)
    assert said[0] == (
        "The arguments of deploy do not fit: replicas: is missing. The agent would have to call it again before "
        "anybody is asked. If it did so:"
    )
    assert "Given with --args: service checkout." in said


def test_who_answers_a_question(explained: Explained) -> None:
    Path("adk-confirm.toml").write_text(
        '[[policy]]\ninputs = ["ask_*"]\napprovers = ["user:U0HR"]\nstart_within = "15m"\n'
    )
    assert explained("--input", "ask_days") == [
        "Policy 1 (line 1) applies to this question (inputs ask_*).",
        "Who may answer: U0HR.",
        "Without an answer it expires after 1 d.",
        "An answer must reach the agent within 15 min, or it does not count.",
        "Given with --args: nothing.",
        "The card goes to the thread of the session, and its channel shows it.",
    ]


def test_what_nobody_would_be_asked(explained: Explained) -> None:
    refused = "The call would be refused at once, and nobody would be asked:"
    assert explained("--tool", "reboot", code=1)[:2] == [
        refused,
        "No policy covers this call. To allow approvals, add a [[policy]] for it.",
    ]
    assert explained("--tool", "lookup", code=1)[:2] == [
        refused,
        "Policy 4 names no approvers. To allow approvals, name some there.",
    ]
    assert explained.refusal("--tool", "deploy") == (
        "adk-confirm explain: Policy 1 (line 2) depends on the call's arguments: args.env == 'prod'. "
        """Add them, as in --args '{"env": "…"}'.\n"""
    )
    said = explained("--tool", "deploy", "--args", "{}", code=1)
    assert said[0] == refused
    assert said[1].startswith("The `when` of policy 1 has no answer for this call: the call has no 'env'.")


def test_a_secret_that_makes_a_condition_fail_is_not_quoted(tmp_path: Path, explained: Explained) -> None:
    Path("adk-confirm.toml").write_text(
        '[[policy]]\ntools = ["*"]\nwhen = "args.all(name, duration(args[name]) > duration(\'1s\'))"\n'
        'approvers = ["user:U0LEAD"]\nredact = ["token"]\n'
    )
    said = explained("--tool", "deploy", "--args", '{"token": "hunter2hunter2"}', code=1)
    assert "The `when` of policy 1 has no answer" in said[-1]
    assert "hunter2" not in "".join(said)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ("{env: 1}", "Expecting property name enclosed in double quotes"),
        ("[1]", "it is a list"),
        ('"x"', "it is one value"),
        ("", "Expecting value"),
        ("[" * 100_000, "it is nested too deeply"),
    ],
)
def test_arguments_that_are_none(explained: Explained, args: str, why: str) -> None:
    said = explained.refusal("--tool", "deploy", "--args", args)
    assert said.startswith(f"adk-confirm explain: --args is not a JSON object: {why}")
    assert said.endswith('Write for example --args \'{"env": "prod"}\'.\n')
