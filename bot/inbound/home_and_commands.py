"""Slack in, around the cards: the Home tab, `/approvals`, a card's history, several calls decided together."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial

from slack_bolt.async_app import AsyncAck, AsyncApp

from blocks import batch, verdict
from blocks.history import history
from blocks.home import ticked_refs
from blocks.ids import Action, Callback, Ref, confirmation_in, parse_id, parse_refs
from blocks.step_views import HistoryView
from blocks.words import AGENT_FAILED, TRIED_AGAIN
from bot.audit.ledger import LedgerLine
from bot.cards import forms
from bot.cards.card_presenter import card_view
from bot.cards.ledger_presenter import step_view
from bot.config.rules import Rules
from bot.confirmation.model import Confirmation, VoteKind
from bot.home.approvals_list import Lists
from bot.home.query import Reader
from bot.home.tab import Homes
from bot.inbound.after_ack import Addressee, Errands
from bot.inbound.payloads import Body, at_of, beside, once, person_of, told_at
from bot.policy.approvers import Person
from bot.slack.directory.directory import Directory
from bot.slack.outbound.calls import Workspace
from bot.slack.outbound.client import Sender
from bot.slack.outbound.errors import Gone
from bot.store.repository import confirmation_lines, read_confirmation
from bot.store.retry import Again, say_again
from bot.store.transactions import Ballot
from bot.telemetry.tracing import followed_casts
from runtime.jsontypes import JsonObject
from runtime.store.database import Database, Tx

COMMAND = "/approvals"
HISTORY = "adk_confirm_history"
NOT_YOURS = "These are somebody else's words: whoever said them can try again, or you say it yourself."
MOST_DIGITS = 15
LOOKING = "Asking Slack who can see this…"
NOT_SEEN = (
    "The history is shown to people who can see the card, and Slack did not say that you can. Use this on the card "
    "itself; if you do, try again in a minute."
)
NO_CARD = "This message is no card. Use this on the message that asks for an approval."

_TICKED = {Action.APPROVE_TICKED: True, Action.DENY_TICKED: False}
ASIDE_ACTIONS = (Action.RETRY, *_TICKED)
BATCHES = {Callback.APPROVE_BATCH: True, Callback.DENY_BATCH: False}


class Asides:
    def __init__(
        self, database: Database, sender: Sender, directory: Directory, rules: Rules, homes: Homes, lists: Lists
    ) -> None:
        self._database, self._sender, self._directory, self._rules = database, sender, directory, rules
        self._homes, self._lists = homes, lists
        self._errands = Errands(sender)

    def register(self, app: AsyncApp) -> None:
        app.event("app_home_opened")(self.home_opened)
        app.command(COMMAND)(self.approvals)
        app.shortcut(HISTORY)(self.history)
        app.action(Action.RETRY.value)(self.retry)
        for action in _TICKED:
            app.action(action.value)(self.ticked)
        for callback in BATCHES:
            app.view(callback.value)(self.submit)

    async def drain(self) -> None:
        """Lets views that are being opened be opened."""
        await self._errands.drain()

    # Home and list

    async def home_opened(self, body: Body, ack: AsyncAck) -> None:
        event, at = body["event"], told_at(body)
        if event.get("tab") == "home" and at.team and event.get("user"):
            await self._homes.opened(Reader(person=Person(at.team, str(event["user"])), at=at))
        await ack()

    async def approvals(self, body: Body, ack: AsyncAck) -> None:
        await ack()
        at, channel, url = told_at(body), str(body["channel_id"]), str(body["response_url"])
        reader = Reader(person=Person(at.team, str(body["user_id"])), at=at)
        wants_help = str(body.get("text") or "").strip().casefold() == "help"
        show = self._lists.help if wants_help else self._lists.show
        self._errands.begin("the list", show(reader, channel, url), Addressee.reader(reader, channel, url))

    # History

    async def history(self, body: Body, ack: AsyncAck) -> None:
        await ack()
        self._errands.begin("the history", self._show_history(body), Addressee.of(body))

    async def _show_history(self, body: Body) -> None:
        """Any app can write a message that names a confirmation, so this asks Slack who can see the card itself. The
        trigger does not live as long as that may take."""
        confirmation, at = confirmation_in(body.get("message")), at_of(body)
        looking = verdict.notice_modal(NO_CARD if confirmation is None else LOOKING)
        opened = await self._sender.open_view(at, body["trigger_id"], looking)
        if confirmation is not None:
            view = await self._history_for(person_of(body), confirmation)
            with suppress(Gone):  # they closed it meanwhile
                await self._sender.update_view(at, opened.id, view)

    async def _history_for(self, person: Person, confirmation: str) -> JsonObject:
        found = await self._database.read(read_history, confirmation)
        if found is None:
            return verdict.notice_modal(NO_CARD)
        row, _ = found
        at = Workspace(row.asked.team, row.asked.enterprise)
        if not await self._directory.sees_any(at, row.card_channels, person):
            return verdict.notice_modal(NOT_SEEN)
        return history(history_view(*found))

    # What an agent could not answer

    async def retry(self, body: Body, ack: AsyncAck) -> None:
        """The same words again, once, for whoever said them."""
        letter, voter = parse_id(body["actions"][0].get("value")), person_of(body)
        known = letter is not None and letter.isascii() and letter.isdigit() and len(letter) <= MOST_DIGITS
        done = await self._database.run(say_again, int(letter or 0), voter) if known else Again.GONE
        await ack()
        target = beside(body, voter)
        if done is Again.NOT_YOURS:
            self._errands.tell(NOT_YOURS, Addressee(target))
        elif done is Again.AGAIN and (channel := target.get("channel")) and (ts := target.get("message_ts")):
            message = verdict.notice_message(f"{AGENT_FAILED} {TRIED_AGAIN}")
            update = self._sender.update(at_of(body), str(channel), str(ts), message)
            self._errands.begin("a notice", update)

    # Several together

    async def ticked(self, body: Body, ack: AsyncAck) -> None:
        await ack()
        approve = _TICKED[Action(body["actions"][0]["action_id"])]
        self._errands.open_form(body, partial(self._batch, body, approve=approve))

    async def _batch(self, body: Body, *, approve: bool) -> JsonObject:
        """The calls in full, and one button for all: nothing was decided yet."""
        state = (body.get("view") or body).get("state") or {}
        rows = await self._database.read(_rows, ticked_refs(state.get("values") or {}))
        return batch.batch_form([card_view(row) for row in rows], approve=approve, reason_required=_required(rows))

    async def submit(self, body: Body, ack: AsyncAck) -> None:
        """Each is a vote of its own, all stored before the ack; what became of each follows in the view."""
        view, voter = body["view"], person_of(body)
        approve = BATCHES[Callback(view["callback_id"])]
        shown, target = _metadata(view.get("private_metadata"))
        rows = await self._database.read(_rows, parse_refs(shown) or ())
        values = view["state"]["values"]
        read = batch.read_batch(shown, values, approve=approve, reason_required=not approve and _required(rows))
        if read is None:
            await ack(response_action="update", view=verdict.notice_modal(forms.GONE))
            return
        if read.errors:
            await ack(response_action="errors", errors=read.errors)
            return
        await self._cast(body, voter, read, target, VoteKind.APPROVE if approve else VoteKind.DENY)
        await ack(response_action="update", view=verdict.counting())

    async def _cast(
        self, body: Body, voter: Person, read: batch.BatchReading, target: JsonObject, kind: VoteKind
    ) -> None:
        view = body["view"]
        votes = {ref: once(voter, view["id"], view.get("hash", ""), ref.encode()) for ref in read.refs}
        url = target.pop("list", None)
        at = at_of(body)
        place: JsonObject = {"team": at.team, "enterprise": at.enterprise}
        shown: JsonObject = {"view": view["id"], "hash": view.get("hash"), "batch": [*votes.values()]}
        where: JsonObject = {**place, **shown, "user": voter.user}
        ballots = [
            Ballot(
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
        await followed_casts(self._database, ballots, self._rules)
        if isinstance(url, str):
            reader = Reader(person=voter, at=at)
            counted = {ref.id: vote for ref, vote in votes.items()}
            redrawn = self._lists.redraw(reader, str(target.get("channel") or ""), url, counted)
            self._errands.begin("a list", redrawn)


def read_history(tx: Tx, confirmation: str) -> tuple[Confirmation, list[LedgerLine]] | None:
    row = read_confirmation(tx, confirmation)
    return None if row is None else (row, confirmation_lines(tx, confirmation))


def history_view(row: Confirmation, lines: list[LedgerLine]) -> HistoryView:
    steps = tuple(step for line in lines if (step := step_view(line, row)) is not None)
    tool = row.redactor.mask_text(row.asked.tool)
    return HistoryView(id=row.id, revision=row.revision.number, version=row.version, tool=tool, steps=steps)


def _rows(tx: Tx, refs: tuple[Ref, ...]) -> list[Confirmation]:
    """Those that are still as they were ticked: what changed meanwhile is not decided unseen."""
    rows = ((ref, read_confirmation(tx, ref.id)) for ref in refs)
    return [row for ref, row in rows if row is not None and row.revision.number == ref.revision]


def _required(rows: list[Confirmation]) -> bool:
    return any(row.policy.deny_reason == "required" for row in rows)


def _metadata(metadata: object) -> tuple[str, JsonObject]:
    """What `forms.with_target` put behind the batch's own."""
    shown, _, text = metadata.rpartition(" ") if isinstance(metadata, str) else ("", "", "")
    try:
        target = json.loads(text)
    except ValueError:
        target = None
    return (shown, target) if isinstance(target, dict) else (str(metadata), {})
