"""`adk-confirm check`: it says what is wrong, and how to fix it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from adk_confirm.bot.cli import main
from adk_confirm.bot.config.settings import parse_settings
from adk_confirm.bot.hosts.plugin import BROKEN, DENIALS, EDITS, PORT
from adk_confirm.bot.store.open import SCHEMAS, open_store, take_store
from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.store.postgres import SESSION
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.failover import NAME, pair
from tests.support.foreign.rig import foreign, google_adk, replay
from tests.support.mcp_servers import Watched
from tests.support.office import office
from tests.support.stores import SECRET

TARGET = 'target = "adk_confirm.examples.oncall:agent"'
POLICY = """
[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL", "email:lead@example.com", "user:U0LEAD", "python:adk_confirm.examples.oncall:over_1000"]
channel = "C0DEPLOYS"
[audit]
channel = "C0AUDIT"
"""


MODEL_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE")
"""The on-call agent chooses its model by them when it is imported, which happens once in a process."""


@dataclass
class Setup:
    """A workspace in which all is well, a folder for the file and the store, and what the command says."""

    slack: FakeSlack
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    shown: str = ""  # what it said last, in its columns

    def people(self, *, flags: Mapping[str, bool] | None = None) -> None:
        lead = self.slack.person("lead", id="U0LEAD", email="lead@example.com")
        self.slack.group("oncall", lead, id="S0ONCALL")
        for name in ("deploys", "audit"):
            self.slack.channel(name, lead, id=f"C0{name.upper()}")
        if flags:
            self.slack.workspace.directory.change_user(lead.id, **flags)  # type: ignore[arg-type]  # its own flags

    async def says(
        self, agent: str = TARGET, policies: str = POLICY, *, code: int = 1, **environment: str | None
    ) -> str:
        file = self.folder / "adk-confirm.toml"
        file.write_text(f"[agent]\n{agent}\n{policies}")
        values: dict[str, str | None] = {
            "SLACK_BOT_TOKEN": self.slack.bot_token,
            "SLACK_SIGNING_SECRET": self.slack.signing_secret,
            "SLACK_APP_TOKEN": self.slack.app_token,
            "SLACK_API_URL": self.slack.url,
            "DATABASE_URL": f"sqlite:///{self.folder / 'x.db'}",
            "ADK_CONFIRM_SECRET": SECRET,
            "ADK_CONFIRM_LISTEN": "127.0.0.1:0",
            **dict.fromkeys(MODEL_KEYS),
            **environment,
        }
        for name, value in values.items():
            self.monkeypatch.setenv(name, value) if value is not None else self.monkeypatch.delenv(name, raising=False)
        self.capsys.readouterr()
        ended = await asyncio.to_thread(main, ["check", "--config", str(file)])
        said = self.capsys.readouterr()
        self.shown = said.out
        assert (ended, said.err) == (code, "")
        return "\n".join(" ".join(line.split()) for line in said.out.splitlines())


@pytest.fixture
async def at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Setup]:
    async with FakeSlack(our_app()) as slack:
        yield Setup(slack, tmp_path, monkeypatch, capsys)


async def test_when_all_is_well_it_says_so(at: Setup) -> None:
    at.people()
    said = await at.says(code=0)
    assert "is not there yet; `adk-confirm serve` makes it" in said
    await (await open_store(f"sqlite:///{at.folder / 'x.db'}", SECRET)).close()
    said = await at.says(code=0)
    assert "FIX" not in said
    for line in (
        "ok agent adk_confirm.examples.oncall:agent is oncall, on adk-confirm's own runtime",
        "ok tools 5; 4 may need approval",
        "ok policies 1 in the file",
        "ok python:adk_confirm.examples.oncall:over_1000 can be called",
        "ok SLACK_APP_TOKEN Socket Mode can connect",
        "ok scopes all there",
        "ok layouts Slack accepts all 18",
        "ok group:S0ONCALL @oncall, 1 member",
        "ok user:U0LEAD is lead (U0LEAD)",
        "ok email:lead@example.com is lead (U0LEAD)",
        "ok C0DEPLOYS the app is in it",
        "ok C0AUDIT the app is in it",
        f"ok tables of bot of version {SCHEMAS[1].version}",
        f"ok tables of runtime of version {SCHEMAS[0].version}",
    ):
        assert line in said


async def test_each_finding_is_printed_when_it_is_known(at: Setup) -> None:
    at.people()
    slow = at.slack.faults.hangs("auth.test")
    checking = asyncio.create_task(at.says(code=0))
    await slow.reached()
    assert "ok   policies " in at.capsys.readouterr().out
    slow.release()
    assert "ok Slack workspace" in await checking


async def test_a_pattern_that_matches_no_tool_is_an_error(at: Setup) -> None:
    """Calls of the tool that was meant would fall to the laxer policy behind it."""
    at.people()
    strict = '[[policy]]\ntools = ["deplyo"]\nwhen = "args.env == \'prod\'"\napprovers = ["user:U0LEAD"]\n'
    said = await at.says(policies=strict + POLICY)
    assert 'its tools: "deplyo" matches no tool of the agent; did you mean deploy?' in said
    said = await at.says(policies=(strict + POLICY).replace("deplyo", "deploy*"), code=0)
    assert said.splitlines()[-2:] == ["", "Nothing to fix."]


WATERING = """
from pydantic import BaseModel
class To(BaseModel):
    id: str
class Step(BaseModel):
    amount: float
def water(plant: str, liters: int, token: str, to: To, steps: list[Step]) -> str: return plant
def label(plant: str, labels: dict[str, str]) -> str: return plant
"""
OURS = """
from adk_confirm import Agent, FunctionTool, ScriptedModel
tools = [FunctionTool(one, require_confirmation=True) for one in (water, label)]
agent = Agent("x", ScriptedModel("Hello."), tools=tools)
"""
GOOGLES = """
from google.adk.agents import LlmAgent
from google.adk.tools.function_tool import FunctionTool
tools = [FunctionTool(one, require_confirmation=True) for one in (water, label)]
agent = LlmAgent(name="x", model="gemini-2.5-flash", tools=tools)
"""
NAMES = """
redact = ["{token}"]
edit = ["{liters}"]
grant = "1h"
grant_on = ["{plant}"]
title = "Water {{{plant}}} for {{{to.id}}}"
format = {{ {liters} = "plain", "{steps.amount}" = "EUR" }}
when = "args.{liters} > 3 && args.{to.id}.startsWith('a') && args['{plant}'] != ''"
"""


def naming(tool: str, names: str, **strange: str) -> str:
    for name in ("token", "liters", "plant", "to.id", "steps.amount"):
        names = names.replace(f"{{{name}}}", strange.get(name, name))
    names = names.replace("{{", "{").replace("}}", "}")
    return f'[[policy]]\ntools = ["{tool}"]\napprovers = ["user:U0LEAD"]\n{names}\n{POLICY}'


THERE = "policy 1 (line 3)"


@pytest.mark.filterwarnings("ignore")  # google-adk warns about itself
@pytest.mark.parametrize("made", [OURS, GOOGLES], ids=["ours", "google-adk"])
async def test_a_name_that_no_tool_has_is_an_error(at: Setup, made: str) -> None:
    """A mistyped `redact` would show the secret, and a mistyped `when` refuse every call."""
    at.people()
    module = f"waters_{'ours' if made is OURS else 'googles'}"
    (at.folder / f"{module}.py").write_text(WATERING + made)
    at.monkeypatch.chdir(at.folder)
    at.monkeypatch.syspath_prepend(at.folder)
    target = f'target = "{module}:agent"'
    said = await at.says(target, naming("water", NAMES), code=0)
    assert "argument" not in said

    strange = {"token": "tokn", "liters": "litres", "plant": "plnt", "to.id": "to.idd", "steps.amount": "steps.amuont"}
    said = await at.says(target, naming("water", NAMES, **strange))
    for key, name, meant in (
        ("redact", "tokn", "token"),
        ("edit", "litres", "liters"),
        ("grant_on", "plnt", "plant"),
        ("title", "plnt", "plant"),
        ("title", "to.idd", "to.id"),
        ("format", "litres", "liters"),
        ("format", "steps.amuont", "steps.amount"),
        ("when", "litres", "liters"),
        ("when", "to.idd", "to.id"),
        ("when", "plnt", "plant"),
    ):
        assert f"FIX {THERE} its {key}: no tool that it covers has an argument {name}; did you mean {meant}?" in said
    assert said.splitlines()[-1] == "10 to fix."

    # These two name arguments as a whole, `redact` names at any depth; whatever is no argument may be for results.
    paths = 'redact = ["steps.amount", "ID", "price*"]\nedit = ["to.id", "soil"]\nformat = { cost = "EUR" }\n'
    said = await at.says(target, naming("water", paths))
    for line in (
        f"FIX {THERE} its edit: no tool that it covers has an argument to.id; did you mean to?",
        f"FIX {THERE} its redact: no tool that it covers has an argument steps.amount; did you mean amount?",
        f"FIX {THERE} its edit: no tool that it covers has an argument soil; there are plant, liters, token, to, steps",
        f"warn {THERE} its redact: no tool that it covers has an argument price*, so this is only for",
        f"note {THERE} its format: no tool that it covers has an argument cost, so this is only for",
    ):
        assert line in said
    assert "argument ID" not in said

    # `labels` takes any name, so this may be one.
    said = await at.says(target, naming("label", 'redact = ["tokn"]\ntitle = "On {labels.place}"'), code=0)
    warned = (
        f"warn {THERE} its redact: no tool that it covers has an argument tokn that is declared; one takes any name"
    )
    assert warned in said
    assert "FIX" not in said


async def test_which_policy_covers_each_tool_and_who_may_approve(at: Setup) -> None:
    at.people()
    first = '[[policy]]\ntools = ["deploy"]\nwhen = "args.env == \'prod\'"\napprovers = ["user:U0LEAD"]\n'
    said = await at.says(policies=first + POLICY.replace('tools = ["*"]', 'tools = ["reimburse", "request_*"]'))
    table = said.partition("tool policy approvals who may approve\n")[2].splitlines()
    assert table[:2] == ["deploy policy 1 (line 3) 1 lead", "if args.env == 'prod'"]
    assert "reimburse policy 2 (line 8) 1 @oncall, email:lead@example.com, lead," in table
    assert "refund none nobody: its calls are refused" in table
    assert "warn deploy is refused where no `when` is true" in said
    assert "FIX refund no policy covers it, so each of its calls is refused. Write one with tools = " in said
    rows = at.shown.partition("\ntool  ")[2].partition("\n\n")[0].splitlines()
    column = len("tool  ") + rows[0].index("who may approve")
    assert {row[column - 2 : column] for row in rows[1:]} == {"  "}, "what continues a row is under its heading"
    assert max(map(len, rows)) <= 100


async def test_people_and_channels_that_are_not_there(at: Setup) -> None:
    bob = at.slack.person("bob")
    at.slack.channel("deploys", bob, id="C0DEPLOYS", with_app=False)
    at.slack.group("oncall", id="S0ONCALL")
    said = await at.says()
    assert "FIX group:S0ONCALL nobody is in this group: nobody could decide" in said
    assert "FIX email:lead@example.com no account has this address: correct it in the policy" in said
    assert "FIX user:U0LEAD there is no such account here: take the id from the person's profile" in said
    assert "FIX C0DEPLOYS the app is not in this channel: invite it with /invite" in said
    assert "FIX C0AUDIT the app can't see this channel: invite it with /invite" in said


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("deleted", "is lead (U0LEAD), who is deactivated and can't decide: name somebody else"),
        ("is_restricted", "is lead (U0LEAD), who is a guest and can't decide: name a member"),
    ],
)
async def test_people_who_can_not_decide(at: Setup, flag: str, sentence: str) -> None:
    at.people(flags={flag: True})
    assert f"FIX user:U0LEAD {sentence}" in await at.says()


async def test_who_is_only_notified_or_barred_need_not_be_able_to_decide(at: Setup) -> None:
    at.people()
    for name, flag in (("gone", "deleted"), ("visitor", "is_restricted")):
        left = at.slack.person(name, id=f"U0{name.upper()}")
        at.slack.workspace.directory.change_user(left.id, **{flag: True})  # type: ignore[arg-type]  # a flag of its own
    policy = '[[policy]]\ntools = ["*"]\napprovers = ["user:U0LEAD"]\nbarred = ["user:U0GONE"]\n'
    said = await at.says(policies=f'{policy}notify = ["user:U0VISITOR", "group:S0NOBODY"]\n')
    assert "ok user:U0GONE is gone (U0GONE)" in said
    assert "ok user:U0VISITOR is visitor (U0VISITOR)" in said
    assert "FIX group:S0NOBODY there is no such user group, or it is switched off" in said


async def test_whom_a_bar_does_not_find_is_a_mistake(at: Setup) -> None:
    at.people()
    at.slack.group("gone", id="S0GONE", disabled=True)
    policy = (
        '[[policy]]\ntools = ["*"]\napprovers = ["user:U0LEAD"]\nbarred = ["group:S0GONE", "email:gone@example.com"]\n'
    )
    said = await at.says(policies=policy)
    assert "FIX group:S0GONE there is no such user group, or it is switched off" in said
    assert "FIX email:gone@example.com no account has this address" in said


async def test_a_slack_that_wants_to_be_asked_less_often_is_asked_again_and_is_no_mistake(at: Setup) -> None:
    at.people()
    at.slack.faults.limits("usergroups.users.list", retry_after=0.1)
    assert "FIX" not in await at.says(code=0)
    at.slack.faults.limits("usergroups.users.list", retry_after=0, times=None)
    assert "note group:S0ONCALL not checked, since Slack wants to be asked less often" in await at.says(code=0)


async def test_tokens(at: Setup) -> None:
    at.people()
    said = await at.says(SLACK_BOT_TOKEN="xoxb-wrong", SLACK_APP_TOKEN="xapp-wrong")
    assert "FIX Slack the bot's token was not accepted (invalid_auth): install the app again" in said
    assert "FIX SLACK_APP_TOKEN was not accepted: make an app-level token with connections:write" in said
    said = await at.says(SLACK_BOT_TOKEN=None)
    assert "FIX settings SLACK_BOT_TOKEN is not set" in said
    ids = "C0AUDIT, C0DEPLOYS, email:lead@example.com, group:S0ONCALL, user:U0LEAD"
    assert f"note Slack not looked up, since SLACK_BOT_TOKEN is not set: {ids}" in said
    assert "are signed with a Slack secret" in await at.says(ADK_CONFIRM_SECRET=None, code=0)
    said = await at.says(ADK_CONFIRM_SECRET=None, SLACK_SIGNING_SECRET=None, SLACK_BOT_TOKEN=None)
    assert "are signed with a Slack secret" not in said


async def test_a_slack_that_can_not_be_reached(at: Setup) -> None:
    said = await at.says(SLACK_API_URL="http://127.0.0.1:9/api/")
    assert "FIX Slack http://127.0.0.1:9/api/ can't be reached: nothing answers there. Check the network" in said


async def test_an_answer_that_is_not_slack_s(at: Setup) -> None:
    """A proxy's page, or Slack's own failure."""
    at.people()
    at.slack.faults.fails("*", status=502, times=None)
    said = await at.says()
    wrong = "the answer is not Slack's (status 502)"
    assert f"FIX SLACK_APP_TOKEN Slack could not be asked: {wrong}. Run this again" in said
    assert f"FIX Slack {at.slack.url} can't be reached: {wrong}. Check the network" in said
    at.slack.faults.clear()
    at.slack.faults.garbles("a*", "text/plain", times=None)
    said = await at.says()
    assert "FIX SLACK_APP_TOKEN Slack could not be asked: the answer is not Slack's. Run this again" in said
    assert f"FIX Slack {at.slack.url} can't be reached: the answer is not Slack's. Check the network" in said
    at.slack.faults.clear()
    at.slack.faults.garbles("usergroups.users.list")
    at.slack.faults.fails("blocks.validate")
    said = await at.says()
    assert "FIX group:S0ONCALL Slack could not be asked: the answer is not Slack's (status 200). Run this again" in said
    assert "note layouts not checked: Slack could not be asked, the answer is not Slack's (status 500)" in said


async def test_layouts_that_slack_would_refuse_or_can_not_judge(at: Setup) -> None:
    at.people()
    at.slack.faults.refuses("blocks.validate", "invalid_blocks", where=lambda args: "Failed" in str(args))
    assert "FIX layouts Slack refuses the card “failed”, invalid_blocks" in await at.says()
    at.slack.faults.refuses("blocks.validate", "unknown_method")
    assert "layouts not checked: Slack does not answer blocks.validate here (unknown_method)" in await at.says(code=0)


async def test_scopes_that_are_missing(at: Setup) -> None:
    at.people()
    at.slack.install.scopes = at.slack.install.scopes - {"usergroups:read"}
    said = await at.says()
    assert "FIX scopes missing: usergroups:read; add them, and install the app again" in said
    assert "FIX group:S0ONCALL a scope is missing: add it and install the app again" in said


async def test_an_agent_that_is_not_there(at: Setup) -> None:
    at.people()
    assert "FIX agent" in await at.says('target = "adk_confirm.examples.oncall:nobody"')
    said = await at.says('url = "http://127.0.0.1:9"\napp = "oncall"')
    assert "FIX agent The agent's server at http://127.0.0.1:9 can't be used" in said


async def test_a_model_that_can_not_be_asked(at: Setup) -> None:
    at.people()
    (at.folder / "modelled.py").write_text(
        "from adk_confirm import Agent\n"
        "gemini, other = Agent('a', 'gemini-2.5-flash', tools=[]), Agent('b', 'gpt-9', tools=[])\n"
    )
    at.monkeypatch.syspath_prepend(at.folder)
    missing = "FIX model gemini-2.5-flash: There is no key for Gemini: set GOOGLE_API_KEY or GEMINI_API_KEY."
    assert missing in await at.says('target = "modelled:gemini"')
    assert missing not in await at.says('target = "modelled:gemini"', code=0, GOOGLE_API_KEY="k")
    said = await at.says('target = "modelled:other"', GOOGLE_API_KEY="k")
    assert "FIX model gpt-9: No model is called 'gpt-9'" in said


async def test_an_agent_on_a_server(at: Setup, tmp_path_factory: pytest.TempPathFactory) -> None:
    at.people()
    with foreign(tmp_path_factory.mktemp("adk"), *replay("go")) as server:
        said = await at.says(f'url = "{server.url}"\napp = "clerk"', code=0)
        assert f"ok agent {server.url} is clerk, on an ADK server" in said
        assert "note agent Whoever reaches its port can answer" in said
        assert "note agent The server may not keep to a denial" in said
        assert "mistyped" not in said
        said = await at.says(f'url = "{server.url}"\napp = "clerk"', naming("reimburse", NAMES, token="tokn"), code=0)
        unseen = "check the names in redact, edit, grant_on, title, format, when yourself"
        assert f"note tools they can't be listed from here, so {unseen}" in said
        said = await at.says(f'url = "{server.url}"\napp = "another"')
    assert 'has no app "another"; it has' in said


Asked = tuple[str | None, str | None, set[str]]
"""With which secret, what `check` says of the plugin, and which warnings stay: none of what it prevents."""

UNSIGNED: list[Asked] = [
    (None, None, {"port", "denials", "edits"}),
    (SECRET, "warn plugin The agent's server asks for no signature, although", {"port", "denials", "edits"}),
]
SIGNED: list[Asked] = [
    (SECRET, "ok plugin it answers on the server, and takes only", set()),
    (None, "FIX plugin The agent's server accepts only signed answers", set()),
    (SECRET[::-1], "FIX plugin The agent's server refuses answers: its", set()),
]


@pytest.mark.filterwarnings("ignore")  # google-adk warns about itself
@pytest.mark.parametrize(
    ("server", "asked"),
    [
        ({}, UNSIGNED),
        ({"PLUGIN": "1"}, [(None, "ok plugin it answers on the server, and asks for no signature", {"port"})]),
        ({"PLUGIN": "1", "SECRET": SECRET}, SIGNED),
    ],
    ids=["no plugin", "without a secret", "with a secret"],
)
async def test_whether_the_plugin_answers_on_a_real_server(
    at: Setup, server: dict[str, str], asked: list[Asked]
) -> None:
    at.people()
    sentences = {"port": PORT, "denials": DENIALS, "edits": EDITS}
    with foreign(at.folder / "adk", *google_adk(), **server) as there:
        for secret, says, stays in asked:
            agent = 'app = "clerk"' if secret is None else 'app = "clerk"\nsecret_env = "ITS_SECRET"'
            fix = says is not None and says.startswith("FIX")
            said = await at.says(f'url = "{there.url}"\n{agent}', code=int(fix), ITS_SECRET=secret)
            assert says is None or says in said
            assert any(line.split()[1:2] == ["plugin"] for line in said.splitlines()) is (says is not None)
            assert {name for name, sentence in sentences.items() if sentence in said} == stays
            assert BROKEN in said


async def test_tools_on_a_server_that_is_down(at: Setup) -> None:
    at.people()
    (at.folder / "broken_agent.py").write_text(
        "from adk_confirm import Agent\n"
        "from adk_confirm.runtime.mcp.toolset import HttpConnection, McpToolset\n"
        'tools = McpToolset(HttpConnection("http://127.0.0.1:9/mcp"))\n'
        'agent = Agent(name="x", model="gemini-2.5-flash", tools=[tools])\n'
    )
    at.monkeypatch.chdir(at.folder)
    said = await at.says('target = "broken_agent:agent"')
    assert "ok agent broken_agent:agent is x" in said
    assert "FIX tools The MCP server http://127.0.0.1:9/mcp cannot be used" in said


async def test_servers_of_the_door_that_are_missing_or_mute(at: Setup) -> None:
    at.people()
    watched = Watched(at.folder / "watch")
    await watched.start()
    sound = watched.bare()
    commands = {"gone": ["no-such-command"], "mute": ["sleep", "1000"], "files": [sound.command, *sound.args]}
    servers = "".join(
        f"[[door.server]]\nname = '{name}'\ncommand = {command!r}\nenv = ['WATCH']\n"
        for name, command in commands.items()
    )
    door = f"[door]\n[[door.caller]]\nname = 'ci'\ntoken_env = 'CI'\ntools = ['*']\nchannel = 'C0DEPLOYS'\n{servers}"
    said = await at.says(
        policies=POLICY + door, ADK_CONFIRM_CHECKPOINT_KEY="ab" * 32, CI="x" * 40, WATCH=sound.env["WATCH"]
    )
    await watched.stop()
    assert "FIX server gone its calls are refused: The MCP server no-such-command cannot be used" in said
    assert "FIX server mute its calls are refused: No answer within 10 seconds. Check that its server runs" in said
    assert "ok server files it has " in said
    assert said.endswith("2 to fix.")


async def test_no_policy_and_no_rota(at: Setup) -> None:
    at.people()
    assert (
        "FIX policies there is none, so every call that needs approval is refused: write a [[policy]]"
        in await at.says(policies="")
    )
    said = await at.says(policies=POLICY.replace("over_1000", "nobody_there"))
    assert "FIX python:adk_confirm.examples.oncall:nobody_there" in said
    (at.folder / "duty.py").write_text("def on_call(call): return []\n")
    at.monkeypatch.syspath_prepend(at.folder)
    said = await at.says(policies=POLICY.replace("adk_confirm.examples.oncall:over_1000", "duty:oncall"))
    assert "FIX python:duty:oncall The module duty has no 'oncall'; did you mean on_call?" in said


async def test_stores(at: Setup) -> None:
    at.people()
    said = await at.says(DATABASE_URL=f"sqlite:///{at.folder}/missing/x.db")
    assert "missing is not a directory that can be written to: make it, or change [store] url" in said
    said = await at.says(DATABASE_URL="postgresql://nobody:t0psecret@127.0.0.1:9/x")
    assert "FIX store PostgreSQL at postgresql://nobody@127.0.0.1:9/x can't be reached" in said
    assert "t0psecret" not in said


async def test_a_store_that_was_begun_with_another_secret(at: Setup) -> None:
    at.people()
    await (await open_store(f"sqlite:///{at.folder / 'x.db'}", SECRET)).close()
    assert "ok secret fits the store" in await at.says(code=0)
    assert await asyncio.to_thread(main, ["pause", "--config", str(at.folder / "adk-confirm.toml")]) == 0
    assert "ok secret fits the store" in await at.says(code=0)
    said = await at.says(ADK_CONFIRM_SECRET="another secret, as long as it was")
    assert "FIX secret The store belongs to another secret: set ADK_CONFIRM_SECRET" in said


async def test_a_store_of_another_agent_and_another_workspace(at: Setup) -> None:
    at.people()
    store = await open_store(f"sqlite:///{at.folder / 'x.db'}", SECRET)
    await store.run(take_store, "T0GLOBEX", "clerk", parse_settings("", {}))
    await store.close()
    said = await at.says()
    assert "FIX store The store belongs to agent clerk, and [agent] is oncall: name this agent's own store" in said
    assert "FIX store The store belongs to workspace T0GLOBEX, and SLACK_BOT_TOKEN to T0ACME: name this" in said


async def test_a_postgres_that_may_forget_what_it_acknowledged(at: Setup, postgres_url: str) -> None:
    """The tests' own server has its files unsynchronised."""
    at.people()
    said = await at.says(code=0, DATABASE_URL=postgres_url)
    assert "warn fsync is off: a crash of the server can lose or damage what was stored. Set fsync = on" in said
    assert "warn full_page_writes is off: a crash of the server can damage what was stored." in said
    assert "synchronous_commit" not in said
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET synchronous_commit = off".encode())
    said = await at.says(code=0, DATABASE_URL=postgres_url)
    assert "warn synchronous_commit is off: after a crash of the server the last acknowledged clicks" in said


async def test_a_pooler_that_drops_our_time_outs(at: Setup, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at.people()
    assert "_timeout is 0" not in await at.says(code=0, DATABASE_URL=postgres_url)
    monkeypatch.delitem(SESSION, "idle_in_transaction_session_timeout")
    said = await at.says(code=0, DATABASE_URL=postgres_url)
    assert "warn idle_in_transaction_session_timeout is 0: a replica that freezes in a transaction keeps its" in said
    assert "warn statement_timeout" not in said


@pytest.mark.slow
async def test_a_standby_that_may_be_behind(at: Setup) -> None:
    at.people()
    async with pair() as both:
        primary = both.primary.url(NAME)
        said = await at.says(code=0, DATABASE_URL=primary)
        assert "warn standby walreceiver follows asynchronously: after it is promoted, a decision can be lost" in said
        both.primary.psql("CREATE ROLE guest LOGIN")
        said = await at.says(code=0, DATABASE_URL=primary.replace("postgres:@", "guest:@"))
        assert "warn standby a standby follows, and this user may not see how: GRANT pg_read_all_stats" in said
        await both.becomes_synchronous()
        assert "standby" not in await at.says(code=0, DATABASE_URL=primary)
        said = await at.says(DATABASE_URL=both.standby.url(NAME))
        assert "FIX standby this server is a standby and takes no writes: name the primary" in said


async def test_what_is_wrong_in_the_file_hides_nothing_else(at: Setup) -> None:
    at.people()
    at.slack.install.scopes = at.slack.install.scopes - {"usergroups:read"}
    wrong = '[[policy]]\ntools = ["*"]\napprovers = ["user:U0LEAD"]\nquorum = 0\n[[policy]]\ntool = ["*"]\n'
    wrong += '[log]\nlevel = "loud"\n'
    said = await at.says(policies=wrong, ADK_CONFIRM_LISTEN="here", ADK_CONFIRM_CHECKPOINT_KEY="short")
    for problem in (
        "FIX settings policy 1 (line 3), quorum: must be at least 1, not 0",
        "FIX settings policy 2 (line 7), tool: is not a setting; did you mean tools?",
        'FIX settings log.level: must be "debug"',
        'FIX settings ADK_CONFIRM_LISTEN: must be host and port, such as "127.0.0.1:3000", not "here"',
        "FIX settings ADK_CONFIRM_CHECKPOINT_KEY: must be 64 hexadecimal digits",
        "FIX scopes missing: usergroups:read",
        "ok agent adk_confirm.examples.oncall:agent is oncall",
    ):
        assert problem in said, said
    assert "policy covers" not in said  # of policies that can't be read nothing is said


async def test_the_port_is_free_or_the_services_own(at: Setup) -> None:
    at.people()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = await at.says(ADK_CONFIRM_LISTEN=f"127.0.0.1:{port}")
    assert f"FIX listen Port {port} on 127.0.0.1 is taken by another program" in said
    assert "choose another with [slack] listen" in said
    async with office(f"sqlite:///{at.folder / 'x.db'}", at.folder / "log", at.monkeypatch, slack=at.slack) as running:
        where = running.bot.url.removeprefix("http://")
        said = await at.says(ADK_CONFIRM_LISTEN=where)
    assert f"ok listen the service answers at {where} already" in said
