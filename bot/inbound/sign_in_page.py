"""`/adk/oauth/callback`: where the browser returns after somebody signed in.

The address contains a secret, so no page and no log line quotes it.
"""

from __future__ import annotations

import logging
import time
from http import HTTPStatus
from secrets import token_hex

from aiohttp import web

from bot.agents.sign_ins import SignIns
from bot.config.rules import RulesInForce
from bot.confirmation.authorise import Facts
from bot.confirmation.model import Confirmation, State, Vote, VoteKind
from bot.confirmation.sign_in import BY_SIGNING_IN, CALLBACK, Credential, SignInAddresses, query_of, ref_in
from bot.policy.approvers import Person
from bot.slack.directory.directory import Directory
from bot.slack.web_page import HEADERS, page
from bot.store.casting import CastResult, SubmittedVote, cast
from bot.store.repository import read_confirmation
from bot.telemetry.tracing import trace_vote
from runtime.errors import ConfirmError, StoreError
from runtime.jsontypes import JsonObject
from runtime.store.database import Database

log = logging.getLogger(__name__)

DONE = "You are signed in"
DONE_NEXT = "{agent} in Slack can continue now. You can close this page."
FAILED = "You are not signed in"
NOT_OURS = "This link is not valid. Open the message in Slack and press Sign in again."
USED = "This link was used before, or has expired. The message in Slack says more."
DECLINED = "The service did not sign you in. If that was a mistake, press Sign in again in Slack."
REFUSED = "Your sign-in does not count. Slack says why."
STORE = "It could not be stored just now. Wait a minute, then press Sign in again in Slack."


class SignInPage:
    """Takes the credentials that people give, from the browser and from forms. They stay in memory. The database only
    gets a vote that says which process holds one."""

    def __init__(
        self,
        database: Database,
        directory: Directory,
        rules: RulesInForce,
        sign_ins: SignIns,
        addresses: SignInAddresses,
    ) -> None:
        self._database, self._directory, self._rules = database, directory, rules
        self._sign_ins, self.addresses = sign_ins, addresses

    def register(self, site: web.Application) -> None:
        if self.addresses.public_url is not None:
            site.router.add_get(CALLBACK, self._callback, allow_head=False)

    async def give(
        self, row: Confirmation, voter: Person, credential: Credential, target: JsonObject, vote: str | None = None
    ) -> CastResult:
        vote = vote or token_hex(20)
        ballot = SubmittedVote(
            id=vote,
            confirmation=row.id,
            revision=row.revision.number,
            kind=VoteKind.APPROVE,
            voter=voter,
            way=BY_SIGNING_IN,
            target={**target, **self._sign_ins.keep(vote, credential)},
        )
        began = time.time_ns()
        done = await self._database.run(cast, ballot, self._rules.now, self._known_facts)
        trace_vote(began, ballot, done)
        if done.refusal is not None:
            self._sign_ins.forget(vote)
        return done

    def _known_facts(self, row: Confirmation, vote: Vote, speakers: frozenset[Person]) -> Facts | None:
        return self._directory.fresh_facts(row, vote, self._rules.now.policies, speakers)

    async def _callback(self, request: web.Request) -> web.Response:
        try:
            return await self._return(request)
        except StoreError as error:
            log.warning("a sign-in could not be stored: %s", type(error).__name__)
            return _page(FAILED, STORE, HTTPStatus.SERVICE_UNAVAILABLE)
        except ConfirmError as error:
            log.warning("a sign-in was not taken: %s", type(error).__name__)
            return _page(FAILED, REFUSED, HTTPStatus.BAD_REQUEST)

    async def _return(self, request: web.Request) -> web.Response:
        given = query_of(str(request.rel_url))
        state = given.get("state", "")
        ref = ref_in(state)
        row = await self._database.read(read_confirmation, ref.id) if ref is not None else None
        if row is None or not row.asked.sign_in or not self.addresses.is_for(row, state):
            log.warning("somebody returned from signing in with a state that is forged or out of date")
            return _page(FAILED, NOT_OURS, HTTPStatus.BAD_REQUEST)
        if row.state is not State.WAITING or row.pending_votes or row.approvals:
            return _page(FAILED, USED, HTTPStatus.GONE)
        if not given.get("code"):
            return _page(FAILED, DECLINED, HTTPStatus.BAD_REQUEST)
        asked = row.asked
        place = next((one for one in row.places if one.person is not None), None)
        target: JsonObject = {"team": asked.team, "enterprise": asked.enterprise, "user": asked.asked_by.user}
        target |= {"channel": place.channel} if place is not None else {}
        credential = self.addresses.credential(row, request.rel_url.raw_query_string)
        done = await self.give(row, asked.asked_by, credential, target)
        if done.refusal is not None:
            return _page(FAILED, REFUSED, HTTPStatus.FORBIDDEN)
        return _page(DONE, DONE_NEXT.format(agent=row.redactor.mask_text(asked.agent)), HTTPStatus.OK)


def _page(title: str, text: str, status: HTTPStatus) -> web.Response:
    return web.Response(body=page(title, text), status=status, headers=HEADERS)
