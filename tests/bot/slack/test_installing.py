"""`/slack/install` to the last page: each failure is explained in a sentence and leaves nothing behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from sqlalchemy import func, select, update

from bot.app import running_bot
from bot.config.settings import load_settings
from bot.sandbox.server.server import FakeSlack
from bot.slack.scopes import SCOPES
from bot.slack.workspaces.installations import bots, states
from runtime.store.database import Tx
from tests.support.office import Office, Opens, config, environment, office
from tests.support.waiting import until
from tests.support.workspaces import BACK, Branch, begin, distributed, install, several

pytestmark = pytest.mark.filterwarnings("ignore:BasicAuth is deprecated")

ANYBODYS = '[[policy]]\ntools = ["*"]\napprovers = ["user:U0LEAD"]\n'
ACMES = f'{ANYBODYS}team = "T0ACME"\n'


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    async with FakeSlack(distributed()) as slack:
        yield slack


@pytest.fixture
def opens(slack: FakeSlack, sqlite_stocked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opens:
    return partial(office, sqlite_stocked, tmp_path / "tools.log", monkeypatch, slack=slack, env=several(slack))


@pytest.fixture
async def at(opens: Opens) -> AsyncIterator[Office]:
    async with opens(ACMES) as opened:
        yield opened


def how_many(tx: Tx) -> int:
    return int(tx.execute(select(func.count()).select_from(bots)).scalar_one())


async def nothing_came_of_it(at: Office) -> bool:
    return await at.bot.database.read(how_many) == 0


async def test_people_are_sent_to_slack_with_what_the_app_needs_and_no_more(at: Office) -> None:
    begun = await begin(at.bot.url)
    asked = parse_qs(urlsplit(begun.asked_at).query)
    assert begun.asked_at.startswith(f"{at.slack.base}/oauth/v2/authorize?")
    assert set(asked["scope"][0].split(",")) == SCOPES
    assert asked.get("user_scope", [""]) == [""]
    page = await begun.goes(at.lead.allows(begun.asked_at))
    assert (page.status, "adk-confirm is installed in Acme" in page.text) == (200, True)
    assert not await nothing_came_of_it(at)


async def test_a_state_is_good_once_in_its_own_browser_and_for_ten_minutes(at: Office) -> None:
    begun = await begin(at.bot.url)
    back = at.lead.allows(begun.asked_at)

    stolen = await begun.goes(back, cookie="slack-app-oauth-state=somebody-elses")
    assert (stolen.status, "in the same browser" in stolen.text) == (400, True)
    forged = await begun.goes(f"{BACK}?code=any&state=made-up", cookie="slack-app-oauth-state=made-up")
    assert (forged.status, "took longer than ten minutes, or was finished before" in forged.text) == (401, True)
    assert await nothing_came_of_it(at)

    assert (await begun.goes(back)).status == 200
    again = await begun.goes(back)
    assert (again.status, "was finished before" in again.text) == (401, True)

    late = await begin(at.bot.url)

    def ten_minutes_pass(tx: Tx) -> None:
        tx.execute(update(states).values(expire_at=_earlier(tx)))

    await at.bot.database.run(ten_minutes_pass)
    assert (await late.goes(at.lead.allows(late.asked_at))).status == 401


def _earlier(tx: Tx) -> object:
    return tx.execute(select(states.c.expire_at)).scalars().all()[-1] - timedelta(seconds=601)


async def test_whoever_cancels_hears_that_nothing_changed(at: Office) -> None:
    begun = await begin(at.bot.url)
    page = await begun.goes(at.lead.cancels(begun.asked_at))
    assert (page.status, "Nobody allowed it at Slack, so nothing was changed" in page.text) == (200, True)
    hostile = await begun.goes(f"{BACK}?error=<script>alert(1)</script>")
    assert "script" not in hostile.text
    assert "Slack did not let it be installed" in hostile.text
    assert await nothing_came_of_it(at)


async def test_a_code_that_slack_does_not_know_or_has_seen(at: Office) -> None:
    for spoilt, sentence in (("made-up", "does not know the code"), ("", "Slack sent no code along")):
        begun = await begin(at.bot.url)
        state = parse_qs(urlsplit(begun.asked_at).query)["state"][0]
        page = await begun.goes(f"{BACK}?{f'code={spoilt}&' if spoilt else ''}state={state}")
        assert (page.status in (400, 401), sentence in page.text) == (True, True)
    assert await nothing_came_of_it(at)


async def test_wrong_credentials_are_the_operators_business(
    opens: Opens, slack: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    async with opens(ACMES, env={**several(slack), "SLACK_CLIENT_SECRET": "not-this-one"}) as at:
        page = await install(at.bot.url, at.lead)
        assert (page.status, "its log says what to fix" in page.text) == (500, True)
        assert "SLACK_CLIENT_SECRET is not the app's Client Secret" in caplog.text
        code = next(iter(slack.workspace.codes))
        assert code not in caplog.text
        assert await nothing_came_of_it(at)


async def test_slack_away_in_the_middle(at: Office) -> None:
    at.slack.faults.cuts("oauth.v2.access")
    page = await install(at.bot.url, at.lead)
    assert (page.status, "Slack could not be reached" in page.text) == (502, True)
    assert await nothing_came_of_it(at)
    assert (await install(at.bot.url, at.lead)).status == 200


async def test_a_workspace_that_no_policy_is_for_gets_its_token_taken_back(at: Office) -> None:
    globex = Branch.of(at.slack, "Globex")
    page = await install(at.bot.url, globex.approver)
    assert (page.status, "None of this app&#x27;s policies is for you." in page.text) == (400, True)
    assert "T0GLOBEX" in page.text
    assert await nothing_came_of_it(at)
    token = next(token for token, one in at.slack.workspace.directory.installs.items() if one.team_id == "T0GLOBEX")
    with pytest.raises(SlackApiError, match="account_inactive"):
        await AsyncWebClient(token, base_url=at.slack.url).auth_test()


async def test_an_organisation_that_no_policy_names_is_declined(at: Office) -> None:
    """A policy for one workspace does not let every organisation in."""
    stranger = Branch.of(at.slack, "Globex", enterprise="E0GLOBEX")
    page = await install(at.bot.url, stranger.approver, everywhere=True)
    assert (page.status, "team = &quot;E0GLOBEX&quot;" in page.text) == (400, True)
    assert await nothing_came_of_it(at)


async def test_a_policy_that_is_written_for_it_lets_it_in(
    slack: FakeSlack, sqlite_stocked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a restart."""
    globex, file = Branch.of(slack, "Globex"), tmp_path / "adk-confirm.toml"
    env = environment(slack, sqlite_stocked, env=several(slack))
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ADK_CONFIRM_DEMO_LOG", str(tmp_path / "tools.log"))
    file.write_text(config(ACMES))
    async with running_bot(load_settings(file, env), file=file) as bot:
        assert (await install(bot.url, globex.approver)).status == 400
        file.write_text(config(ACMES + ANYBODYS + 'team = "T0GLOBEX"\n'))

        async def lets_it_in() -> bool:  # the file is looked at every second
            return (await install(bot.url, globex.approver)).status != 400

        await until(lets_it_in)


async def test_policies_that_name_nobody_are_for_one_workspace_only(opens: Opens, slack: FakeSlack) -> None:
    globex = Branch.of(slack, "Globex")
    async with opens(ANYBODYS) as at:
        assert (await install(at.bot.url, at.lead)).status == 200
        page = await install(at.bot.url, globex.approver)
        assert (page.status, "do not say which workspace each is for" in page.text) == (400, True)
        assert (await install(at.bot.url, at.lead)).status == 200  # again, for a new scope


async def test_a_token_that_would_expire_is_not_taken(at: Office, caplog: pytest.LogCaptureFixture) -> None:
    """Slack never switches rotation off again: whoever installs and whoever runs it hear what helps."""
    at.slack.workspace.token_rotation = True
    page = await install(at.bot.url, at.lead)
    assert page.status == 400
    assert "token rotation on" in page.text
    assert "make a new Slack app from `adk-confirm manifest`" in page.text
    assert "make a new app from `adk-confirm manifest`, and set its SLACK_CLIENT_ID" in caplog.text
    assert await nothing_came_of_it(at)
    given = [made for made in at.slack.calls_of("apps.uninstall") if not made.error]
    assert len(given) == 1, "Slack would go on taking it for installed"


async def test_the_pages_are_not_kept_and_run_nothing(at: Office) -> None:
    import aiohttp

    async with aiohttp.ClientSession() as browser, browser.get(f"{at.bot.url}/slack/oauth_redirect") as answer:
        assert answer.status == 400
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
