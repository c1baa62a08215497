"""Handles the opening of the Home tab or a direct message, and decisions on several calls at once: there, or in the
list of `/approvals`."""

from __future__ import annotations

import json
import time
from functools import partial

from slack_bolt.async_app import AsyncAck, AsyncApp

from blocks import batch, verdict
from blocks.home import ticked_refs
from blocks.ids import Action, Callback, Ref, parse_refs
from bot.cards import forms
from bot.cards.card_presenter import card_view
from bot.config.rules import RulesInForce
from bot.confirmation.model import Confirmation, VoteKind
from bot.home.approvals_list import ApprovalsList
from bot.home.query import HomeReader
from bot.home.tab import HomeTabs
from bot.inbound.after_ack import AfterAck
from bot.inbound.payloads import Body, at_of, click_id, person_of, workspace_of_event
from bot.inbound.prompts import Prompts
from bot.policy.approvers import Person
from bot.slack.directory.names import NameLookup
from bot.slack.outbound.client import Sender
from bot.store.batch_votes import cast_all
from bot.store.casting import SubmittedVote
from bot.store.repository import read_confirmation
from bot.telemetry.tracing import trace_vote
from runtime.jsontypes import JsonObject
from runtime.store.database import Database, Tx

TICKED = {Action.APPROVE_TICKED: True, Action.DENY_TICKED: False}
BATCHES = {Callback.APPROVE_BATCH: True, Callback.DENY_BATCH: False}


class HomeEvents:
    def __init__(
        self,
        database: Database,
        sender: Sender,
        names: NameLookup,
        rules: RulesInForce,
        homes: HomeTabs,
        lists: ApprovalsList,
        prompts: Prompts,
    ) -> None:
        self._database, self._rules = database, rules
        self._homes, self._lists, self._prompts = homes, lists, prompts
        self._errands = AfterAck(sender, names)

    def register(self, app: AsyncApp) -> None:
        app.event("app_home_opened")(self.home_opened)
        for action in TICKED:
            app.action(action.value)(self.ticked)
        for callback in BATCHES:
            app.view(callback.value)(self.submit)

    async def drain(self) -> None:
        """Waits for forms and lists that are being sent."""
        await self._errands.drain()

    async def home_opened(self, body: Body, ack: AsyncAck) -> None:
        event, at = body["event"], workspace_of_event(body)
        if event.get("tab") == "home" and at.team and event.get("user"):
            await self._homes.opened(HomeReader(person=Person(at.team, str(event["user"])), at=at))
        await ack()
        channel = str(event.get("channel") or "")
        if event.get("tab") == "messages" and at.team and channel and self._prompts.wanted:
            self._errands.begin("the suggested prompts", self._prompts.suggest(at, channel))

    # Several together

    async def ticked(self, body: Body, ack: AsyncAck) -> None:
        await ack()
        approve = TICKED[Action(body["actions"][0]["action_id"])]
        self._errands.open_form(body, partial(self._batch, body, approve=approve))

    async def _batch(self, body: Body, *, approve: bool) -> JsonObject:
        """A form with the calls in full and one button for all of them. Nothing is decided yet."""
        state = (body.get("view") or body).get("state") or {}
        rows = await self._database.read(_rows, ticked_refs(state.get("values") or {}))
        return batch.batch_form(
            [card_view(row) for row in rows], approve=approve, reason_required=_reason_required(rows)
        )

    async def submit(self, body: Body, ack: AsyncAck) -> None:
        """Stores a vote for each call before the ack. The results follow in the view."""
        view, voter = body["view"], person_of(body)
        approve = BATCHES[Callback(view["callback_id"])]
        shown, target = _metadata(view.get("private_metadata"))
        rows = await self._database.read(_rows, parse_refs(shown) or ())
        values = view["state"]["values"]
        read = batch.read_batch(shown, values, approve=approve, reason_required=not approve and _reason_required(rows))
        if read is None:
            await ack(response_action="update", view=verdict.notice_modal(forms.GONE))
            return
        if read.errors:
            await ack(response_action="errors", errors=read.errors)
            return
        await self._cast(body, voter, read, target, VoteKind.APPROVE if approve else VoteKind.DENY)
        await ack(response_action="update", view=verdict.counting_view())

    async def _cast(
        self, body: Body, voter: Person, read: batch.BatchReading, target: JsonObject, kind: VoteKind
    ) -> None:
        view = body["view"]
        votes = {ref: click_id(voter, view["id"], view.get("hash", ""), ref.encode()) for ref in read.refs}
        url = target.pop("list", None)
        at = at_of(body)
        place: JsonObject = {"team": at.team}
        shown: JsonObject = {"view": view["id"], "hash": view.get("hash"), "batch": [*votes.values()]}
        where: JsonObject = {**place, **shown, "user": voter.user}
        ballots = [
            SubmittedVote(
                id=vote,
                confirmation=ref.id,
                revision=ref.revision,
                kind=kind,
                voter=voter,
                reason=read.reason,
                way="batch",
                target={**target, **where},
            )
            for ref, vote in votes.items()
        ]
        began = time.time_ns()
        for ballot, done in await self._database.run(cast_all, ballots, self._rules.now):
            trace_vote(began, ballot, done)
        if isinstance(url, str):
            reader = HomeReader(person=voter, at=at)
            counted = {ref.id: vote for ref, vote in votes.items()}
            redrawn = self._lists.redraw(reader, str(target.get("channel") or ""), url, counted)
            self._errands.begin("a list", redrawn)


def _rows(tx: Tx, refs: tuple[Ref, ...]) -> list[Confirmation]:
    """Those that are still as they were ticked. What has changed since, also in the database, is not decided unseen."""
    rows = ((ref, read_confirmation(tx, ref.id)) for ref in refs)
    return [row for ref, row in rows if row and row.revision.number == ref.revision]


def _reason_required(rows: list[Confirmation]) -> bool:
    return any(row.policy.deny_reason == "required" for row in rows)


def _metadata(metadata: object) -> tuple[str, JsonObject]:
    """What `forms.with_target` added to the batch's own metadata."""
    shown, _, text = metadata.rpartition(" ") if isinstance(metadata, str) else ("", "", "")
    try:
        target = json.loads(text)
    except ValueError:
        target = None
    return (shown, target) if isinstance(target, dict) else (str(metadata), {})
