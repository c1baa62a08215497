"""Slack's page on which people allow an app, the codes that it gives, and what an organisation's token may do."""

from __future__ import annotations

from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.sandbox.server.server import FakeSlack
from bot.slack.scopes import SCOPES
from runtime.errors import ConfirmError
from tests.support.workspaces import BACK, distributed

pytestmark = pytest.mark.filterwarnings("ignore:BasicAuth is deprecated")


def page(slack: FakeSlack, **changed: str) -> str:
    asked = {"client_id": slack.workspace.app.client_id, "scope": ",".join(sorted(SCOPES)), "state": "s1", **changed}
    return f"{slack.base}/oauth/v2/authorize?{urlencode(asked)}"


def code_in(back: str) -> str:
    return parse_qs(urlsplit(back).query)["code"][0]


async def test_it_sends_back_with_a_code_or_with_a_no() -> None:
    async with FakeSlack(distributed()) as slack:
        lead = slack.person("lead")
        assert lead.allows(page(slack)).startswith(f"{BACK}?code=")
        assert lead.cancels(page(slack)) == f"{BACK}?error=access_denied&state=s1"
        for changed, said in (
            ({"client_id": "9.9"}, "Invalid client_id"),
            ({"scope": "admin"}, "Invalid permissions requested: admin"),
            ({"redirect_uri": "https://evil.example/"}, "did not match any configured"),
        ):
            with pytest.raises(ConfirmError, match=said):
                lead.allows(page(slack, **changed))
        with pytest.raises(ConfirmError, match="guest"):
            slack.person("gus", is_restricted=True).allows(page(slack))
    async with FakeSlack() as closed:
        with pytest.raises(ConfirmError, match="no redirect URL"):
            closed.person("lead").allows(page(closed))


async def test_a_code_lives_ten_minutes_and_belongs_to_one_address() -> None:
    async with FakeSlack(distributed()) as slack:
        lead, app = slack.person("lead"), slack.workspace.app
        client = AsyncWebClient(base_url=slack.url)
        ours = {"client_id": app.client_id, "client_secret": app.client_secret}
        named = code_in(lead.allows(page(slack, redirect_uri=BACK)))
        with pytest.raises(SlackApiError, match="bad_redirect_uri"):
            await client.oauth_v2_access(code=named, **ours)
        granted = await client.oauth_v2_access(code=named, redirect_uri=BACK, **ours)
        assert granted["authed_user"] == {"id": lead.id}
        late = code_in(lead.allows(page(slack)))
        slack.clock.advance(601)
        with pytest.raises(SlackApiError, match="invalid_code"):
            await client.oauth_v2_access(code=late, **ours)


async def test_an_organisations_token_says_in_which_workspace_a_group_is() -> None:
    async with FakeSlack(distributed()) as slack:
        north, south = (slack.workspace.directory.add_team(name, enterprise="E0CORP") for name in ("North", "South"))
        sue = slack.person("sue", team=south)
        slack.workspace.directory.set_group(south, "south", (sue.id,), id="S0SOUTH")
        wide = slack.workspace.directory.install(north, enterprise_wide=True)
        client = AsyncWebClient(wide.token, base_url=slack.url)
        with pytest.raises(SlackApiError, match="missing_argument"):
            await client.usergroups_users_list(usergroup="S0SOUTH")
        with pytest.raises(SlackApiError, match="team_access_not_granted"):
            await client.usergroups_users_list(usergroup="S0SOUTH", team_id=slack.team.id)
        assert (await client.usergroups_users_list(usergroup="S0SOUTH", team_id=south.id))["users"] == [sue.id]
        profile = (await client.users_info(user=sue.id))["user"]
        assert profile["enterprise_user"]["teams"] == [south.id]
        assert "is_stranger" not in profile


async def test_a_token_can_die_without_a_word() -> None:
    async with FakeSlack(distributed()) as slack:
        slack.revokes(slack.install, silently=True)
        with pytest.raises(SlackApiError, match="token_revoked"):
            await AsyncWebClient(slack.bot_token, base_url=slack.url).auth_test()
        await slack.settled()
        assert slack.deliveries == []
