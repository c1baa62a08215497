"""Which token a call uses, and which workspaces may send us events: one workspace, or all that installed the app.

With `SLACK_BOT_TOKEN` there is one workspace (or organisation) and nothing to look up. Without it workspaces install
the app themselves (`oauth.py`), and each row's workspace determines the token.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import aiohttp
from slack_bolt.authorization import AuthorizeResult
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.config.settings import Settings
from bot.config.token_cipher import TokenCipher
from bot.policy.checks import team_problems
from bot.policy.model import CallRefusal, CallRefusalReason, GoverningPolicy, Policies
from bot.policy.problems import Problem, SettingsError
from bot.slack.outbound.calls import ClientFor, Workspace
from bot.slack.outbound.errors import DEAD, NotInstalled, Revoked, trouble_from
from bot.slack.workspaces.identity import BotIdentity, identify, slack_client
from bot.slack.workspaces.installed import InstalledApp, find_serving, list_installed
from bot.slack.workspaces.removal import (
    AccessChange,
    Removal,
    grant,
    has_left,
    note_removal,
    record_arrival,
    record_departure,
    withhold,
)
from bot.slack.workspaces.removal_cleanup import RemovalCleanup
from runtime.errors import Invalid
from runtime.rest.listening import CannotServe
from runtime.store.database import Database, Tx

if TYPE_CHECKING:
    from slack_sdk.oauth.installation_store import Bot, Installation

log = logging.getLogger(__name__)


class Workspaces(Protocol):
    async def client_for(self, enterprise: str | None, team: str) -> AsyncWebClient:
        """A client with the token for that workspace. Raises `NotInstalled`."""
        ...

    async def authorize(self, enterprise_id: str | None, team_id: str | None) -> AuthorizeResult | None:
        """The workspace for which Slack sent a request; None: one that this app does not know. Makes no calls, since a
        click must not be lost because Slack does not answer. Bolt's own way would call `auth.test` between a click and
        its ack."""
        ...

    async def handle_revoked(self, at: Workspace, token: str, trouble: Revoked) -> None:
        """Handles a token that Slack refused. Raises `NotInstalled` once the token counts as revoked."""
        ...

    async def handle_removal(self, removal: Removal) -> bool:
        """Handles Slack's report that the app, or its token, is gone. Returns False if that was known."""
        ...

    async def handle_access_change(self, access: AccessChange) -> None:
        """Handles Slack's report where an organisation may use the app, or no longer may."""
        ...

    async def why_unfit(self, at: Workspace, found: GoverningPolicy | CallRefusal) -> CallRefusalReason | None:
        """Why nobody in this workspace may be asked, or None."""
        ...

    def workspace_named(self, id_: str | None) -> Workspace:
        """The workspace that the file means where it names a channel."""
        ...

    @property
    def description(self) -> str: ...

    async def run(self) -> None: ...

    def stop(self) -> None: ...


class OneWorkspace:
    """The one workspace whose token is in the environment."""

    def __init__(self, database: Database, client: AsyncWebClient, identity: BotIdentity) -> None:
        self._database, self._client, self._identity = database, client, identity
        self._stopping = asyncio.Event()

    @property
    def description(self) -> str:
        return f"{self._identity.team} as {self._identity.user}"

    async def client_for(self, enterprise: str | None, team: str) -> AsyncWebClient:  # noqa: ARG002  (there is one)
        return self._client

    async def authorize(self, enterprise_id: str | None, team_id: str | None) -> AuthorizeResult | None:
        if not self._identity.serves(enterprise_id, team_id):
            return None
        return AuthorizeResult(
            enterprise_id=enterprise_id,
            team_id=team_id,
            bot_user_id=self._identity.user,
            bot_id=self._identity.bot,
            bot_token=self._client.token,
        )

    async def handle_revoked(self, at: Workspace, token: str, trouble: Revoked) -> None:
        """Does nothing: the operator has to set another token."""

    async def handle_removal(self, removal: Removal) -> bool:
        new = await self._database.run(note_removal, removal)
        if new:
            said = removal.sentence.format(place=removal.at.team)
            log.error("%s Nobody can be asked until it is installed again: set its new SLACK_BOT_TOKEN.", said)
        return new

    async def handle_access_change(self, access: AccessChange) -> None:
        """Handles such a report for an organisation's token."""
        if access.granted:
            return
        for team in access.teams:
            sentence, event = "The app may not be used in {place} any more.", f"access:{team}:{access.at}"
            removal = Removal(at=Workspace(team, access.enterprise), sentence=sentence, event=event)
            if await self._database.run(note_removal, removal):
                log.warning("%s Nobody there can be asked until it may be again.", sentence.format(place=team))

    async def why_unfit(self, at: Workspace, found: GoverningPolicy | CallRefusal) -> CallRefusalReason | None:  # noqa: ARG002  (all fits)
        return None

    def workspace_named(self, id_: str | None) -> Workspace:  # noqa: ARG002  (there is one)
        return Workspace.of(self._identity)

    async def run(self) -> None:
        await self._stopping.wait()

    def stop(self) -> None:
        self._stopping.set()


class SeveralWorkspaces:
    """All workspaces that installed the app."""

    def __init__(self, database: Database, client_id: str, cipher: TokenCipher, api_url: str) -> None:
        self._database, self._client_id, self._api_url = database, client_id, api_url
        from bot.slack.workspaces.installations import Installations  # the SDK's stores, which take a while to load

        self.installations = Installations(database, client_id, cipher, saved=_record_arrival)
        self._closing = RemovalCleanup(database)

    @property
    def description(self) -> str:
        return "the workspaces that install it"

    async def client_for(self, enterprise: str | None, team: str) -> AsyncWebClient:
        bot = await self._database.read_few(self.installations.bot_for, Workspace(team, enterprise))
        if bot is None:
            raise NotInstalled(team, enterprise)
        return self._client(bot.bot_token)

    async def authorize(self, enterprise_id: str | None, team_id: str | None) -> AuthorizeResult | None:
        at = Workspace(team_id or "", enterprise_id)
        bot = await self._database.read_few(self.installations.bot_for, at)
        return None if bot is None else _authorization(bot, at)

    async def handle_revoked(self, at: Workspace, token: str, trouble: Revoked) -> None:
        """Asks Slack once more first, because everything open there is closed for good afterwards."""
        if trouble.code not in DEAD or await self._is_token_valid(token):
            return
        sentence = f"Slack does not accept the app's token for {{place}} any more ({trouble.code})."
        if await self._database.run(self._give_up, at, token, sentence):
            log.warning("%s", sentence.format(place=at.team or at.enterprise))
            raise NotInstalled(at.team, at.enterprise)

    async def handle_removal(self, removal: Removal) -> bool:
        new = await self._database.run(self._depart, removal)
        if new:
            log.warning(
                "%s Work there stops.",
                removal.sentence.format(place=removal.at.team or removal.at.enterprise),
            )
        return new

    async def handle_access_change(self, access: AccessChange) -> None:
        for team in await self._database.run(self._change_access, access):
            if access.granted:
                log.info("%s may use the app in %s again", access.enterprise, team)
            else:
                log.warning("%s may not use the app in %s any more. It is stopped there.", access.enterprise, team)

    async def why_unfit(self, at: Workspace, found: GoverningPolicy | CallRefusal) -> CallRefusalReason | None:
        return await self._database.read_few(unfit, self._client_id, at, found)

    def workspace_named(self, id_: str | None) -> Workspace:
        """An organisation is named by its own id."""
        return Workspace(id_ or "", id_ if id_ is not None and id_.startswith("E") else None)

    async def run(self) -> None:
        """Closes what belonged to those that left."""
        await self._closing.run()

    def stop(self) -> None:
        self._closing.stop()

    def _client(self, token: str) -> AsyncWebClient:
        return AsyncWebClient(token, base_url=self._api_url, retry_handlers=[])

    async def _is_token_valid(self, token: str) -> bool:
        """Whether the token still works. If Slack does not answer, it may."""
        try:
            await self._client(token).auth_test()
        except (SlackApiError, aiohttp.ClientError, OSError, TimeoutError) as error:
            return trouble_from("auth.test", error, repeatable=True).code not in DEAD
        return True

    def _give_up(self, tx: Tx, at: Workspace, token: str, sentence: str) -> bool:
        """Forgets a token, unless the app has been installed again since the token was read."""
        bot, one = self.installations.bot_for(tx, at), find_serving(tx, at, self._client_id)
        if bot is None or one is None or bot.bot_token != token:
            return False
        return record_departure(tx, one, Removal(at=at, sentence=sentence.format(place=one)))

    def _depart(self, tx: Tx, removal: Removal) -> bool:
        one = find_serving(tx, removal.at, self._client_id)
        # A workspace can only remove its own installation, not that of its organisation.
        if one is not None and bool(one.team) == bool(removal.at.team):
            return record_departure(tx, one, replace(removal, sentence=removal.sentence.format(place=one)))
        return has_left(tx, removal.at) and note_removal(
            tx, removal
        )  # Slack reports it in two events of different types

    def _change_access(self, tx: Tx, access: AccessChange) -> list[str]:
        """Records the change, unless it is already known."""
        organisation = find_serving(tx, Workspace("", access.enterprise), self._client_id)
        if organisation is None:
            return []
        change = grant if access.granted else withhold
        return [team for team in access.teams if change(tx, organisation, team, access)]


async def open_workspaces(settings: Settings, database: Database) -> OneWorkspace | SeveralWorkspaces:
    """Opens the workspaces that the environment names. Raises an error with a sentence if a token is refused, or can't
    be decrypted."""
    environment = settings.environment
    if not environment.several:
        client = slack_client(settings)
        return OneWorkspace(database, client, await identify(client))
    if environment.client_id is None or environment.token_key is None:
        raise CannotServe("SLACK_CLIENT_ID, SLACK_CLIENT_SECRET and ADK_CONFIRM_TOKEN_KEY have to be set.")
    from bot.slack.workspaces.installations import seal_anew

    cipher = TokenCipher(environment.token_key.get_secret_value())
    anew = await database.run(seal_anew, cipher)
    if anew:
        log.info("%d tokens were encrypted again with the newest key: the older keys can be removed", anew)
    found = await database.read(list_installed, environment.client_id)
    if not found:
        log.warning("no workspace has installed the app yet: open /slack/install where this is reached")
    problems = missing_teams(settings.policies, [one.id for one in found])
    if problems:
        raise SettingsError(problems)
    return SeveralWorkspaces(database, environment.client_id, cipher, environment.api_url)


def client_for(settings: Settings, database: Database, unset: str) -> ClientFor:
    """A client for a command that asks Slack itself. Raises the sentence `unset` if there is no token."""
    environment = settings.environment

    async def client(enterprise: str | None, team: str) -> AsyncWebClient:
        if environment.bot_token is not None:
            return slack_client(settings)
        if environment.client_id is None or environment.token_key is None:
            raise Invalid(unset)
        cipher = TokenCipher(environment.token_key.get_secret_value())
        several = SeveralWorkspaces(database, environment.client_id, cipher, environment.api_url)
        return await several.client_for(enterprise, team)

    return client


def missing_teams(policies: Policies, ids: Sequence[str]) -> list[Problem]:
    """Those problems with the policies' teams that would let one workspace decide about another's calls."""
    wrong = team_problems(policies.entries, ids)
    nameless = {f"policy[{index}].team" for index, policy in enumerate(policies.entries) if policy.team is None}
    return [problem for problem in wrong if problem.key in nameless]


def _authorization(bot: Bot, at: Workspace) -> AuthorizeResult:
    return AuthorizeResult(
        enterprise_id=at.enterprise,
        team_id=at.team,
        bot_user_id=bot.bot_user_id,
        bot_id=bot.bot_id,
        bot_token=bot.bot_token,
    )


# Transactions


def unfit(tx: Tx, client_id: str, at: Workspace, found: GoverningPolicy | CallRefusal) -> CallRefusalReason | None:
    if has_left(tx, at):
        return CallRefusalReason.REMOVED
    whose = isinstance(found, GoverningPolicy) and found.policy.team is None
    return CallRefusalReason.WHOSE_POLICY if whose and len(list_installed(tx, client_id)) > 1 else None


def _record_arrival(tx: Tx, one: InstalledApp, installation: Installation) -> None:
    by = f" by {installation.user_id}" if installation.user_id else ""
    record_arrival(tx, one, f"The app was installed in {one}{by}.")
