"""Setting up several workspaces: settings, keys, `check` and `manifest`. A single workspace needs none of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import text

from bot.app import running_bot
from bot.cli import main
from bot.commands.manifest import manifest_text as manifest
from bot.config.settings import parse_settings, serving_problems
from bot.config.token_cipher import HOW_TO_MAKE_ONE, BadKey, TokenCipher, Unopenable
from bot.policy.problems import SettingsError
from bot.sandbox.server.server import FakeSlack
from runtime.store.database import Tx
from tests.support.office import configured, environment, office
from tests.support.workspaces import KEY, Branch, distributed, install, several

pytestmark = pytest.mark.filterwarnings("ignore:BasicAuth is deprecated")

AGENT = '[agent]\ntarget = "examples.oncall:agent"\n'
BOTHS = """
[[policy]]
team = "T0ACME"
tools = ["*"]
approvers = ["user:U0LEAD"]
[[policy]]
team = "T0GLOBEX"
tools = ["*"]
approvers = ["user:U0GLOBEXBOSS"]
"""
SET = {
    "SLACK_CLIENT_ID": "1000.2000",
    "SLACK_CLIENT_SECRET": "s",
    "SLACK_SIGNING_SECRET": "s",
    "ADK_CONFIRM_TOKEN_KEY": KEY,
    "ADK_CONFIRM_SECRET": "not a secret, but long enough",
}


def problems(file: str = AGENT, **changed: str) -> list[str]:
    env = {**SET, **changed}
    return [str(problem) for problem in serving_problems(parse_settings(file, env), env)]


def test_what_is_missing_is_named_and_how_to_come_by_it() -> None:
    assert problems() == []
    (said,) = problems(SLACK_CLIENT_SECRET="")
    assert said.startswith("SLACK_CLIENT_SECRET is not set")
    (said,) = problems(ADK_CONFIRM_TOKEN_KEY="")
    assert said.startswith("ADK_CONFIRM_TOKEN_KEY is not set")
    assert HOW_TO_MAKE_ONE in said
    (said,) = problems(ADK_CONFIRM_TOKEN_KEY="too short to be one")
    assert HOW_TO_MAKE_ONE in said
    assert "too short" not in said
    (said,) = problems(f'{AGENT}[audit]\nchannel = "C0AUDIT"\n')
    assert said.startswith("audit.team: is missing")
    assert problems(f'{AGENT}[audit]\nchannel = "C0AUDIT"\nteam = "T0ACME"\n') == []


def test_with_a_token_it_is_for_one_workspace_and_the_rest_is_not_looked_at() -> None:
    env = {**SET, "SLACK_BOT_TOKEN": "xoxb-1", "ADK_CONFIRM_TOKEN_KEY": "nonsense"}
    settings = parse_settings(AGENT, env)
    assert not settings.environment.several
    assert serving_problems(settings, env) == ()
    assert any(warning.key == "SLACK_CLIENT_ID" for warning in settings.warnings)


def test_several_workspaces_need_another_library() -> None:
    """One does not: `test_cli.py`."""
    script = (
        "import sys; sys.modules['cryptography'] = None; from bot.config import token_cipher as t; t.TokenCipher('k')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "pip install 'adk-confirm[oauth]'" in done.stderr


def test_a_key_opens_what_it_sealed_and_is_replaced_without_a_gap() -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    sealed = TokenCipher(old).seal("xoxb-1")
    assert "xoxb" not in sealed
    assert TokenCipher(f"{new}, {old}").open(sealed) == "xoxb-1"
    fresh = TokenCipher(f"{new},{old}").seal_anew(sealed)
    assert fresh is not None
    assert TokenCipher(new).open(fresh) == "xoxb-1"
    assert TokenCipher(new).seal_anew(fresh) is None
    with pytest.raises(Unopenable, match="install the app in that workspace again"):
        TokenCipher(new).open(sealed)
    with pytest.raises(BadKey):
        TokenCipher(f"{new},{old},")


def stored(tx: Tx) -> list[str]:
    return [
        *tx.execute(text("SELECT bot_token FROM bot_installed")).scalars(),
        *tx.execute(text("SELECT bot_token FROM bot_installations")).scalars(),
    ]


async def test_no_token_is_in_the_database_and_keys_can_change(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = KEY, Fernet.generate_key().decode()
    async with FakeSlack(distributed()) as slack:
        async with office(database_url, tmp_path / "log", monkeypatch, BOTHS, slack=slack, env=several(slack)) as at:
            assert (await install(at.bot.url, at.lead)).status == 200
            token = slack.workspace.directory.installed_in("T0ACME")
            assert token is not None
            before = await at.bot.database.read(stored)
            assert len(before) == 2
            assert [one for one in before if token.token in one] == []
            files = [file.read_bytes() for file in tmp_path.glob("store.db*") if file.is_file()]
            assert any(before[0].encode() in file for file in files) == database_url.startswith("sqlite")
            assert not any(token.token.encode() in file for file in files)

        with pytest.raises(Unopenable, match="ADK_CONFIRM_TOKEN_KEY"):
            async with running_bot(configured(slack, database_url, BOTHS, env=several(slack, new))):
                pass
        async with running_bot(configured(slack, database_url, BOTHS, env=several(slack, f"{new},{old}"))) as bot:
            after = await bot.database.read(stored)
            assert set(after) & set(before) == set()
        async with running_bot(configured(slack, database_url, BOTHS, env=several(slack, new))) as bot:
            slack.sends_to(f"{bot.url}/slack/events")
            await at.ann.says("@adk-confirm reimburse 1500 for the team dinner", at.deploys)
            await at.ann.finds("[Approve]", at.deploys, timeout=30)


async def test_with_two_installed_a_policy_has_to_say_whose_it_is(
    sqlite_stocked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FakeSlack(distributed()) as slack:
        globex = Branch.of(slack, "Globex")
        async with office(sqlite_stocked, tmp_path / "log", monkeypatch, BOTHS, slack=slack, env=several(slack)) as at:
            for person in (at.lead, globex.approver):
                assert (await install(at.bot.url, person)).status == 200
        with pytest.raises(SettingsError, match=r"policy\[1\].team: is missing; several workspaces are installed"):
            async with running_bot(
                configured(slack, sqlite_stocked, BOTHS.replace('team = "T0GLOBEX"', ""), env=several(slack))
            ):
                pass
        assert await checks(slack, tmp_path, sqlite_stocked, monkeypatch, BOTHS) == 0
        assert await checks(slack, tmp_path, sqlite_stocked, monkeypatch, BOTHS.replace("GLOBEX", "INITECH")) == 1


async def checks(
    slack: FakeSlack, folder: Path, url: str, monkeypatch: pytest.MonkeyPatch, policies: str, **changed: str
) -> int:
    file = folder / "adk-confirm.toml"
    file.write_text(f"{AGENT}{policies}")
    for name, value in environment(slack, url, env={**several(slack), **changed}).items():
        monkeypatch.setenv(name, value)
    return await asyncio.to_thread(main, ["check", "--config", str(file)])


async def test_check_says_what_is_wrong_with_key_and_credentials(
    sqlite_stocked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with FakeSlack(distributed()) as slack:
        ask = partial(checks, slack, tmp_path, sqlite_stocked, monkeypatch, BOTHS)
        async with office(sqlite_stocked, tmp_path / "log", monkeypatch, BOTHS, slack=slack, env=several(slack)) as at:
            assert (await install(at.bot.url, at.lead)).status == 200
        for changed, said in (
            ({"SLACK_CLIENT_ID": "9.9"}, "SLACK_CLIENT_ID is not the app's Client ID"),
            ({"SLACK_CLIENT_SECRET": "no"}, "SLACK_CLIENT_SECRET is not the app's Client Secret"),
            ({"ADK_CONFIRM_TOKEN_KEY": ""}, "ADK_CONFIRM_TOKEN_KEY is not set"),
            ({"ADK_CONFIRM_TOKEN_KEY": Fernet.generate_key().decode()}, "install the app in that workspace again"),
        ):
            assert await ask(**changed) == 1
            assert said in capsys.readouterr().out
        await ask()
        out = capsys.readouterr().out
        assert "Slack knows this client id and secret" in out
        assert "workspace Acme (T0ACME)" in out


def test_the_manifest_of_an_app_that_others_install() -> None:
    text = manifest("https://confirm.example.com", install="https://confirm.example.com/", org=True)
    assert "  redirect_urls:\n    - https://confirm.example.com/slack/oauth_redirect #" in text
    assert "org_deploy_enabled: true" in text
    assert "socket_mode_enabled: false" in text
    plain = manifest()
    assert "redirect_urls" not in plain
    assert "org_deploy_enabled: false" in plain
    assert "socket_mode_enabled: true" in manifest(install="https://confirm.example.com")
