"""`/slack/install` and `/slack/oauth_redirect`: lets a workspace or an organisation install the app.

Bolt's OAuth flow sends people to Slack with a state that must come back once, from the same browser, and stores the
installation. The pages that people see are made here.

An installation is accepted if there is a policy for it: one that names the workspace or organisation, or one that names
none while nobody else has the app. So a stranger who finds the address can't talk to the agent, and policies without a
workspace are never ambiguous.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

import aiohttp
from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response
from slack_bolt.error import BoltError
from slack_bolt.oauth.async_callback_options import AsyncCallbackOptions, AsyncFailureArgs, AsyncSuccessArgs
from slack_bolt.oauth.async_oauth_flow import AsyncOAuthFlow
from slack_bolt.oauth.async_oauth_settings import AsyncOAuthSettings
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.errors import SlackApiError
from slack_sdk.oauth.installation_store import Installation
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.config.environment import Environment
from bot.config.rules import RulesInForce
from bot.slack.outbound.errors import trouble_from
from bot.slack.web_page import HEADERS, page
from bot.slack.workspaces import oauth_pages as words
from bot.slack.workspaces.installations import STATE_LIVES, States
from bot.slack.workspaces.installed import list_installed
from bot.slack.workspaces.tokens import SeveralWorkspaces
from runtime.errors import ConfirmError, StoreError
from runtime.rest.listening import headers_of
from runtime.store.database import Database

log = logging.getLogger(__name__)
_quiet = logging.getLogger("bot.slack.workspaces.oauth.sdk")
_quiet.setLevel(logging.INFO)  # at DEBUG the SDK logs what it sends

INSTALL, REDIRECT = "/slack/install", "/slack/oauth_redirect"


class Declined(ConfirmError, BoltError):
    """The installation was refused. The message says why, for the person who installs."""


class Misconfigured(ConfirmError):
    """Slack refuses this app's own credentials. The message is for the operator."""


class _Client(AsyncWebClient):
    """Tells the installer's errors (a refused code) from the operator's (refused credentials), before Bolt's flow mixes
    them up and logs the code."""

    async def oauth_v2_access(self, **given: Any) -> AsyncSlackResponse:  # passed on as it is
        try:
            return await super().oauth_v2_access(**given)
        except SlackApiError as error:
            code = trouble_from("oauth.v2.access", error, repeatable=False).code
            if code in words.CODES:
                raise Declined(words.CODES[code]) from None
            log.error("Slack did not take this app's credentials (%s): %s", code, words.FIX.get(code, words.FIX_ANY))
            raise Misconfigured(words.MISCONFIGURED) from None


class _Flow(AsyncOAuthFlow):
    def __init__(self, client: AsyncWebClient, settings: AsyncOAuthSettings, database: Database, rules: RulesInForce):
        super().__init__(client=client, logger=log, settings=settings)
        self._database, self._rules = database, rules

    async def store_installation(self, request: AsyncBoltRequest, installation: Installation) -> None:  # noqa: ARG002  (Bolt's)
        why = await self._why_not(installation)
        if why is None:
            await self.settings.installation_store.async_save(installation)
            log.info("installed in %s", installation.team_id or installation.enterprise_id)
            return
        await self._revoke(installation)
        raise Declined(why)

    async def _why_not(self, installation: Installation) -> str | None:
        if installation.bot_refresh_token is not None:
            log.error(words.FIX_ROTATION)
            return words.ROTATES
        if installation.bot_token is None or not (installation.team_id or installation.enterprise_id):
            return words.NO_BOT
        id_ = (installation.enterprise_id if installation.is_enterprise_install else installation.team_id) or ""
        others = {one.id for one in await self._database.read(list_installed, self.client_id)} - {id_}
        named = {policy.team for policy in self._rules.now.policies.entries}
        if others and None in named:
            return words.WHOSE.format(id=id_)
        return None if named & {None, id_, installation.enterprise_id} else words.NOT_FOR_YOU.format(id=id_)

    async def _revoke(self, installation: Installation) -> None:
        """Revokes the token of a refused installation, since Slack considers the app installed."""
        try:
            await self.client.apps_uninstall(
                token=installation.bot_token,
                client_id=self.settings.client_id,
                client_secret=self.settings.client_secret,
            )
        except (SlackApiError, aiohttp.ClientError, OSError, TimeoutError) as error:
            log.warning("an installation that was declined is still there: %s", type(error).__name__)


class InstallPages:
    """The two pages, for a site to serve."""

    def __init__(
        self,
        environment: Environment,
        database: Database,
        workspaces: SeveralWorkspaces,
        rules: RulesInForce,
        scopes: frozenset[str],
    ) -> None:
        assert environment.client_id is not None
        assert environment.client_secret is not None
        settings = AsyncOAuthSettings(
            client_id=environment.client_id,
            client_secret=environment.client_secret.get_secret_value(),
            scopes=sorted(scopes),
            user_scopes=[],
            redirect_uri=environment.redirect_uri,
            install_path=INSTALL,
            install_page_rendering_enabled=False,
            redirect_uri_path=REDIRECT,
            callback_options=AsyncCallbackOptions(success=_welcome, failure=_explain),
            authorization_url=authorization_url(environment.api_url),
            installation_store=workspaces.installations,
            state_store=States(database),
            state_expiration_seconds=STATE_LIVES,
            logger=log,
        )
        client = _Client(base_url=environment.api_url, retry_handlers=[], logger=_quiet)
        self._flow = _Flow(client, settings, database, rules)

    def register(self, site: web.Application) -> None:
        site.router.add_get(INSTALL, self._install, allow_head=False)
        site.router.add_get(REDIRECT, self._redirect, allow_head=False)

    async def _install(self, request: web.Request) -> web.StreamResponse:
        try:
            return await to_aiohttp_response(await self._flow.handle_installation(_bolt_request(request)))
        except StoreError as error:
            log.warning("nobody can install the app now: %s", error)
            return await to_aiohttp_response(_page(words.FAILED, words.STORE, HTTPStatus.SERVICE_UNAVAILABLE))

    async def _redirect(self, request: web.Request) -> web.StreamResponse:
        try:
            answer = await self._flow.handle_callback(_bolt_request(request))
        except Declined as declined:
            answer = _page(words.FAILED, str(declined), HTTPStatus.BAD_REQUEST)
        except Misconfigured as wrong:
            answer = _page(words.FAILED, str(wrong), HTTPStatus.INTERNAL_SERVER_ERROR)
        except StoreError as error:
            log.warning("an installation could not be stored: %s", error)
            answer = _page(words.FAILED, words.STORE, HTTPStatus.SERVICE_UNAVAILABLE)
        except (SlackApiError, aiohttp.ClientError, OSError, TimeoutError) as error:
            log.warning("an installation was not finished: %s", type(error).__name__)
            answer = _page(words.FAILED, words.SLACK_AWAY, HTTPStatus.BAD_GATEWAY)
        return await to_aiohttp_response(answer)


def _bolt_request(request: web.Request) -> AsyncBoltRequest:
    """The request for Bolt. Everything that matters is in the address and the cookie; the body is not even read."""
    return AsyncBoltRequest(body="", query=request.query_string, headers=headers_of(request))


def authorization_url(api_url: str) -> str:
    """The address at which people allow the installation, next to the API's address:
    https://slack.com/oauth/v2/authorize."""
    return f"{api_url.removesuffix('/').removesuffix('api')}oauth/v2/authorize"


async def _welcome(args: AsyncSuccessArgs) -> BoltResponse:
    one = args.installation
    name = (one.enterprise_name if one.is_enterprise_install else one.team_name) or one.team_id or one.enterprise_id
    return _page(words.DONE.format(name=name), words.DONE_NEXT, HTTPStatus.OK)


async def _explain(args: AsyncFailureArgs) -> BoltResponse:
    said = str(args.error) if isinstance(args.error, Declined) else words.REASONS.get(args.reason, words.ANY_REASON)
    status = HTTPStatus.BAD_REQUEST if isinstance(args.error, Declined) else HTTPStatus(args.suggested_status_code)
    return _page(words.FAILED, said, status)


def _page(title: str, text: str, status: HTTPStatus) -> BoltResponse:
    return BoltResponse(status=status, body=page(title, text), headers={**HEADERS})
