"""Clicks and forms: each listener reads the payload, runs one transaction and acks. The worker does the rest.

Slack never delivers a click again once it is acked, so the vote is stored before the ack. An exception before the ack
is answered with 500, and the person who clicked sees that it failed.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial

from slack_bolt.async_app import AsyncAck, AsyncApp

from blocks import verdict
from blocks.form import FormErrors
from blocks.ids import Action, Callback, Ref, parse_id
from blocks.schema import UnreadableSchema
from bot.audit.ledger import LedgerLine
from bot.cards import forms
from bot.cards.forms import SubmittedForm
from bot.config.rules import Rules
from bot.confirmation.authorise import Facts, Reason, Refusal, authorise
from bot.confirmation.effects import Verdict
from bot.confirmation.model import Confirmation, State, Vote, VoteKind
from bot.confirmation.shown import Shown
from bot.confirmation.votes import claim_of, most_favourable
from bot.home.lists import Lists
from bot.home.query import HomeReader
from bot.inbound.after_ack import Addressee, AfterAck
from bot.inbound.fair_turns import FairTurns
from bot.inbound.message_events import AddressedMessage, read_message_event
from bot.inbound.message_hints import HintSender
from bot.inbound.payloads import Body, Click, click_id, click_target, form_target, person_of, read_click, team_of
from bot.policy.approvers import Person
from bot.policy.model import Policies
from bot.slack.api import Slack
from bot.slack.directory import Directory
from bot.store.casting import CastResult, SubmittedVote, cast
from bot.store.grants_in_force import probe
from bot.store.incoming_words import MessageResult, SlackMessage, receive_mention, receive_reply
from bot.store.repository import chain_of, find_session, lock_confirmation, now, read_confirmation, read_history
from bot.telemetry.tracing import trace_vote, work_span
from runtime.errors import ConfirmError, NotFound, StoreError
from runtime.jsontypes import JsonObject, canonical
from runtime.store.database import Database, Tx
from runtime.telemetry import tracing
from runtime.telemetry.logs import log_context

VOTES: dict[str, VoteKind] = {
    Action.APPROVE: VoteKind.APPROVE,
    Action.WITHDRAW: VoteKind.WITHDRAW,
    Action.HAPPENED: VoteKind.HAPPENED,
    Action.NOT_HAPPENED: VoteKind.DID_NOT,
    Action.RUN_AGAIN: VoteKind.RUN_AGAIN,
    Action.REVOKE: VoteKind.REVOKE,
}
OPENS: dict[str, Callable[[Confirmation, Ref], JsonObject]] = {
    Action.APPROVE_OPEN: forms.approve_view,
    Action.DENY: forms.deny_view,
    Action.EDIT: forms.edit_view,
    Action.SEE: forms.everything_view,
    Action.HISTORY: forms.everything_view,
    Action.RUN_AGAIN_OPEN: forms.run_again_view,
    Action.WITHDRAW_OPEN: forms.withdraw_view,
}
OPENS_FOR: dict[str, VoteKind] = {
    Action.APPROVE_OPEN: VoteKind.APPROVE,
    Action.DENY: VoteKind.DENY,
    Action.EDIT: VoteKind.APPROVE,
    Action.WITHDRAW_OPEN: VoteKind.WITHDRAW,
}

FORMS = (Callback.APPROVE, Callback.DENY, Callback.EDIT, Callback.RUN_AGAIN, Callback.WITHDRAW)


class ClicksAndForms:
    def __init__(
        self,
        database: Database,
        slack: Slack,
        directory: Directory,
        rules: Rules,
        lists: Lists,
        errands: AfterAck,
        app_name: str,
    ) -> None:
        self._turns = FairTurns()
        self._database, self._slack, self._rules, self._app_name = database, slack, rules, app_name
        self._directory, self._lists = directory, lists
        self._errands, self._hints = errands, HintSender(database, slack, directory)

    def register(self, app: AsyncApp) -> None:
        """Register these first: Bolt asks its listeners in turn, and nothing may be quicker than a click on a card."""
        app.action(re.compile(rf"^(?!{Action.RETRY}$)adk_confirm_\w+$"))(self.click)
        app.view(re.compile(r"^adk_confirm_\w+_view$"))(self.submit)
        app.event("app_mention")(self.message)
        app.event("message")(self.message)

    # Words

    async def message(self, body: Body, context: Body, ack: AsyncAck) -> None:
        found = read_message_event(body, self._app_name, str(context.get("bot_user_id") or ""))
        if found is not None:
            with work_span("mention", session=found.heard.session) as span:
                heard = replace(found.heard, trace=tracing.traceparent())
                listened = await self._listen(found, heard)
                span.forgotten = not listened.new
        await ack()
        if found is not None and listened.sign is not None:
            self._errands.begin("a hint", self._hints.give(listened, heard, str(context.get("bot_user_id") or "")))

    async def _listen(self, found: AddressedMessage, heard: SlackMessage) -> MessageResult:
        """Stores a message. A mention arrives as two events, and the second one finds it stored."""
        return await self._database.run(receive_mention if found.by_name else receive_reply, heard, found.stops)

    # Clicks

    async def click(self, body: Body, ack: AsyncAck) -> None:
        click = read_click(body)
        if click.action == Action.REVOKE and (grant := parse_id(click.value)):
            click = replace(click, ref=Ref(grant, 1))  # a grant has its confirmation's id
        if click.ref is not None and click.action in VOTES:
            await self._vote(body, click, click.ref)
        await ack()
        if click.ref is not None and click.action in OPENS:
            # Nothing was decided yet, and the trigger lives for three seconds.
            self._errands.open_form(body, partial(self._form, click, click.ref))

    async def _vote(self, body: Body, click: Click, ref: Ref) -> None:
        target, url = _strip_address(click_target(body, click.person))
        ballot = SubmittedVote(
            id=click_id(click.person, click.at, click.action, ref.encode()),
            confirmation=ref.id,
            revision=ref.revision,
            kind=VOTES[click.action],
            voter=click.person,
            target=target,
        )
        _, wrong = await self._cast(ballot)
        if wrong is not None:
            self._errands.tell(str(wrong), Addressee(target))
        self._redraw(body, ballot, url)

    def _known_facts(self, row: Confirmation, vote: Vote, speakers: frozenset[Person]) -> Facts | None:
        return self._directory.fresh_facts(row, vote, self._rules.policies, speakers)

    def _redraw(self, body: Body, ballot: SubmittedVote, url: str) -> None:
        """Draws the list or the Home tab again from which it was decided, once the vote is counted."""
        target = ballot.target or {}
        if url or target.get("home"):
            reader = HomeReader(person=ballot.voter, team=team_of(body))
            self._errands.begin("a list", self._redraw_counted(reader, ballot, str(target.get("channel") or ""), url))

    async def _redraw_counted(self, reader: HomeReader, ballot: SubmittedVote, channel: str, url: str) -> None:
        await self._lists.counted(ballot.confirmation, ballot.id)
        if url:
            await self._lists.redraw(reader, channel, url)
        else:
            await self._errands.retried(partial(self._lists.publish_home, reader))

    async def _cast(self, ballot: SubmittedVote) -> tuple[CastResult | None, ConfirmError | None]:
        """The result of the vote, or what went wrong if it could not be stored."""
        with log_context(confirmation=ballot.confirmation):
            try:
                began = time.time_ns()
                async with self._turns.of(ballot.voter, ballot.confirmation):
                    done = await self._database.run(cast, ballot, self._rules.policies, self._known_facts)
                trace_vote(began, ballot, done)
                return done, None
            except StoreError:
                raise
            except ConfirmError as error:
                return None, error

    async def _form(self, click: Click, ref: Ref) -> JsonObject:
        """The window that a click opens: the form, or the reason why this person can't use it."""
        found = await self._database.read(_read_pressed, ref.id)
        if found is None:  # gone, or somebody changed it in the database: then the card says so
            with suppress(NotFound):
                await self._database.run(lock_confirmation, ref.id)
            found = await self._database.read(_read_pressed, ref.id)
        if found is None:
            return verdict.notice_modal(forms.GONE)
        row, lines, speakers, at = found
        if click.action == Action.HISTORY:
            return forms.history_view(row, lines)
        if row.state is State.WAITING and (kind := OPENS_FOR.get(click.action)) and _is_current(row, ref, kind):
            refused = self._known_refusal(probe(row, click.person, at, kind), row, speakers)
            if refused is not None:
                return verdict.verdict_modal(Shown(row), Verdict(confirmation=row.id, refusal=refused))
        return await asyncio.to_thread(OPENS[click.action], row, ref)

    def _known_refusal(self, vote: Vote, row: Confirmation, speakers: frozenset[Person]) -> Refusal | None:
        """Decides by what is known without asking Slack. For anybody else the form opens, and the submit decides."""
        facts = self._known_facts(row, vote, speakers) or most_favourable(row, vote, speakers)
        ruling = authorise(row.policy, claim_of(row, vote), facts)
        return ruling if isinstance(ruling, Refusal) and ruling.reason is not Reason.CANNOT_ASK else None

    # Forms

    async def submit(self, body: Body, ack: AsyncAck) -> None:
        """Checks the fields against the row and stores the vote. The form closes, unless there is something to read."""
        view = body["view"]
        ref, target = forms.read_metadata(view.get("private_metadata"))
        target, url = _strip_address(target)
        if view["callback_id"] not in FORMS:
            await ack()
            return
        row = None if ref is None else await self._database.read(read_confirmation, ref.id)
        if ref is None or row is None:
            await ack(response_action="update", view=verdict.notice_modal(forms.GONE))
            return
        callback, values = Callback(view["callback_id"]), view["state"]["values"]
        try:
            async with self._turns.form(person_of(body)):
                submitted = await asyncio.to_thread(_read, callback, ref, row, values, self._rules.policies)
        except UnreadableSchema as error:
            await ack(response_action="update", view=verdict.notice_modal(str(error)))
            return
        except FormErrors as found:
            await ack(response_action="errors", errors=found.errors)
            return
        voter = person_of(body)
        ballot = SubmittedVote(
            id=click_id(voter, view["id"], view.get("hash", ""), ref.encode(), canonical(values)),
            confirmation=ref.id,
            revision=ref.revision,
            kind=submitted.kind,
            voter=voter,
            reason=submitted.reason,
            edit=submitted.edit,
            grant=submitted.grant,
            way="form",
            target={**target, **form_target(body, voter)},
        )
        cast, wrong = await self._cast(ballot)
        self._redraw(body, ballot, url)
        if wrong is not None:
            await ack(response_action="update", view=verdict.notice_modal(str(wrong)))
        elif cast is not None and cast.refusal is not None:
            refused = Verdict(confirmation=ref.id, refusal=cast.refusal)
            shown = verdict.verdict_modal(Shown(cast.row), refused)
            await ack(response_action="update", view=shown)
        else:
            await ack()  # the form closes, and the card shows the result


def _read_pressed(
    tx: Tx, confirmation: str
) -> tuple[Confirmation, list[LedgerLine], frozenset[Person], datetime] | None:
    """A confirmation with its history, who spoke in its session, and the time."""
    found = read_history(tx, confirmation)
    if found is None:
        return None
    session = find_session(tx, chain_of(found[0].asked.session))
    return *found, session.speakers if session else frozenset(), now(tx)


def _is_current(row: Confirmation, ref: Ref, kind: VoteKind) -> bool:
    """Whether what was pressed is still current. A withdrawal is of the request, whatever an edit made of it."""
    return kind is VoteKind.WITHDRAW or ref.revision == row.revision.number


_SAYS = {
    Callback.DENY: VoteKind.DENY,
    Callback.RUN_AGAIN: VoteKind.RUN_AGAIN,
    Callback.WITHDRAW: VoteKind.WITHDRAW,
}


def _read(callback: Callback, ref: Ref, row: Confirmation, values: Body, policies: Policies) -> SubmittedForm:
    """The fields of a vote that can't count any more are not read, since they may be another call's. Counting says why
    it is too late."""
    if ref.revision != row.revision.number or row.state is not State.WAITING:
        return SubmittedForm(kind=_SAYS.get(callback, VoteKind.APPROVE))
    match callback:
        case Callback.DENY:
            return forms.read_denial(row, values)
        case Callback.WITHDRAW:
            return SubmittedForm(kind=VoteKind.WITHDRAW)
        case Callback.EDIT:
            return forms.read_edit(row, values, policies)
        case _:
            return forms.read_approval(row, values, policies)


def _strip_address(target: JsonObject) -> tuple[JsonObject, str]:
    """Takes the address of a list out of the target, because whoever has it can write to that person."""
    url = target.get("list")
    return ({**target, "list": True}, url) if isinstance(url, str) and url else (target, "")
