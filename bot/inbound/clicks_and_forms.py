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

from adk_confirm.blocks import notices
from adk_confirm.blocks.click_ids import Action, Callback, Ref, parse_id
from adk_confirm.blocks.form import FormErrors
from adk_confirm.bot.audit.ledger import LedgerLine
from adk_confirm.bot.cards import modals
from adk_confirm.bot.cards.modals import SubmittedForm
from adk_confirm.bot.config.settings import Rules
from adk_confirm.bot.confirmation.authorise import Facts, Reason, Refusal, authorise
from adk_confirm.bot.confirmation.confirmation import Confirmation, Seat, State, Vote, VoteKind
from adk_confirm.bot.confirmation.votes import best_case_facts, claim_of, hypothetical_vote
from adk_confirm.bot.home.lists import Lists
from adk_confirm.bot.inbound.after_ack import AfterAck, FairTurns
from adk_confirm.bot.inbound.payloads import Body, Click, click_id, form_values, needed, person_of, read_click
from adk_confirm.bot.policy.policies import Policies
from adk_confirm.bot.slack.directory import Directory
from adk_confirm.bot.store.cast_vote import CastResult, SubmittedVote, cast
from adk_confirm.bot.store.repository import (
    lock_confirmation,
    now,
    read_confirmation,
    read_history,
)
from adk_confirm.bot.telemetry.spans import trace_vote
from adk_confirm.runtime.errors import ConfirmError, NotFound, StoreError
from adk_confirm.runtime.jsontypes import JsonObject, as_object, as_text, canonical
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.telemetry.logs import log_context

VOTES: dict[str, VoteKind] = {
    Action.APPROVE: VoteKind.APPROVE,
    Action.WITHDRAW: VoteKind.WITHDRAW,
    Action.HAPPENED: VoteKind.HAPPENED,
    Action.NOT_HAPPENED: VoteKind.DID_NOT,
    Action.RUN_AGAIN: VoteKind.RUN_AGAIN,
    Action.REVOKE: VoteKind.REVOKE,
}
OPENS: dict[str, Callable[[Confirmation, Ref], JsonObject]] = {
    Action.APPROVE_OPEN: modals.approve_view,
    Action.REVIEW: modals.approve_view,
    Action.GRANT_OPEN: partial(modals.approve_view, grant=True),
    Action.DENY: modals.deny_view,
    Action.EDIT: modals.edit_view,
    Action.SEE: modals.everything_view,
    Action.RUN_AGAIN_OPEN: modals.run_again_view,
    Action.WITHDRAW_OPEN: modals.withdraw_view,
}
OPENS_FOR: dict[str, VoteKind] = {
    Action.APPROVE_OPEN: VoteKind.APPROVE,
    Action.GRANT_OPEN: VoteKind.APPROVE,
    Action.DENY: VoteKind.DENY,
    Action.EDIT: VoteKind.APPROVE,
    Action.WITHDRAW_OPEN: VoteKind.WITHDRAW,
}

FORMS = (Callback.APPROVE, Callback.DENY, Callback.EDIT, Callback.RUN_AGAIN, Callback.WITHDRAW)


class ClicksAndForms:
    def __init__(
        self,
        database: Database,
        directory: Directory,
        rules: Rules,
        lists: Lists,
        after_ack: AfterAck,
    ) -> None:
        self._turns = FairTurns()
        self._database, self._directory, self._rules, self._lists = database, directory, rules, lists
        self._after_ack = after_ack

    def register(self, app: AsyncApp) -> None:
        """Register these first: Bolt asks its listeners in turn, and nothing may be quicker than a click on a card."""
        app.action(re.compile(rf"^(?!(?:{Action.RETRY}|{Action.ASK_AGAIN})$)adk_confirm_\w+$"))(self.click)
        app.view(re.compile(r"^adk_confirm_\w+_view$"))(self.submit)

    # Clicks

    async def click(self, body: Body, ack: AsyncAck) -> None:
        click = _from_window(read_click(body), as_object(body.get("view")))
        if click.action == Action.REVOKE and (grant := parse_id(click.value)):
            click = replace(click, ref=Ref(grant, 1))  # a grant has its confirmation's id
        if click.ref is not None and click.action in VOTES:
            await self._vote(click, click.ref)
        await ack()
        if click.ref is not None and click.action in (*OPENS, Action.HISTORY):
            # Nothing was decided yet, and the trigger lives for three seconds.
            self._after_ack.open_form(click.seat, click.url, partial(self._form, click, click.ref))

    async def _vote(self, click: Click, ref: Ref) -> None:
        voter = click.seat.person
        ballot = SubmittedVote(
            id=click_id(voter, click.at, click.action, ref.encode()),
            confirmation=ref.id,
            revision=ref.revision,
            kind=VOTES[click.action],
            voter=voter,
            seat=click.seat,
        )
        _, wrong = await self._cast(ballot)
        if wrong is not None:
            self._after_ack.tell(str(wrong), click.seat)
        self._redraw(ballot, click.seat, click.url)

    def _known_facts(self, row: Confirmation, vote: Vote) -> Facts | None:
        return self._directory.fresh_facts(row, vote, self._rules.policies)

    def _redraw(self, ballot: SubmittedVote, seat: Seat, url: str) -> None:
        """Draws anew the list or the Home tab in which somebody voted, once the vote is counted."""
        if seat.lists or seat.home:
            self._after_ack.begin("a list", self._redraw_counted(ballot, seat, url))

    async def _redraw_counted(self, ballot: SubmittedVote, seat: Seat, url: str) -> None:
        await self._lists.counted(ballot.confirmation, ballot.id)
        if seat.lists:
            await self._lists.redraw(seat, url)
        else:
            await self._after_ack.retried(partial(self._lists.publish_home, seat))

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
            return notices.notice_modal(modals.GONE)
        row, lines, at = found
        if click.action == Action.HISTORY:
            return await asyncio.to_thread(modals.history_view, row, lines)
        kind = OPENS_FOR.get(click.action)  # a withdrawal is of the request, whatever an edit made of it
        current = kind is VoteKind.WITHDRAW or ref.revision == row.revision.number
        if row.state is State.WAITING and kind is not None and current:
            refused = self._known_refusal(hypothetical_vote(row, click.seat.person, at, kind), row)
            if refused is not None:
                return await asyncio.to_thread(modals.refusal_view, row, refused, click.seat.person)
        return await asyncio.to_thread(OPENS[click.action], row, ref)

    def _known_refusal(self, vote: Vote, row: Confirmation) -> Refusal | None:
        """Why the vote can't count, if that is known without asking Slack. Otherwise the form opens for this person."""
        known = self._known_facts(row, vote) or best_case_facts(row, vote)
        ruling = authorise(row.policy, claim_of(row, vote), known)
        return ruling if isinstance(ruling, Refusal) and ruling.reason is not Reason.CANNOT_ASK else None

    # Forms

    async def submit(self, body: Body, ack: AsyncAck) -> None:
        """Checks the fields against the row and stores the vote. The form closes, unless there is something to read."""
        view, voter = as_object(body.get("view")), person_of(body)
        callback, values = as_text(view.get("callback_id")), form_values(view)
        if callback not in FORMS:
            await ack()
            return
        ref, opened, url, terms = modals.read_metadata(view.get("private_metadata"))
        # The form is closed, so its result is shown in a window of the submit's own trigger.
        seat = replace(opened or Seat(person=voter), person=voter, trigger=as_text(body.get("trigger_id")))
        row = None if ref is None else await self._database.read(read_confirmation, ref.id)
        if ref is None or row is None:
            await ack(response_action="update", view=notices.notice_modal(modals.GONE))
            return
        try:
            async with self._turns.form(voter):
                reading = partial(_read, Callback(callback), ref, row, values, terms, self._rules.policies)
                submitted = await asyncio.to_thread(reading)
        except FormErrors as found:
            await ack(response_action="errors", errors=found.errors)
            return
        except ConfirmError as error:
            await ack(response_action="update", view=notices.notice_modal(str(error)))
            return
        ballot = SubmittedVote(
            id=click_id(voter, needed(view, "id"), as_text(view.get("hash")), ref.encode(), canonical(values)),
            confirmation=ref.id,
            revision=ref.revision,
            kind=submitted.kind,
            voter=voter,
            reason=submitted.reason,
            edit=submitted.edit,
            grant=submitted.grant,
            way="form",
            seat=seat,
        )
        cast, wrong = await self._cast(ballot)
        self._redraw(ballot, seat, url)
        if wrong is not None:
            await ack(response_action="update", view=notices.notice_modal(str(wrong)))
        elif cast is not None and cast.refusal is not None:
            shown = await asyncio.to_thread(modals.refusal_view, cast.row, cast.refusal, voter)
            await ack(response_action="update", view=shown)
        else:
            await ack()  # the form closes, and the card shows the result


def _read_pressed(tx: Tx, confirmation: str) -> tuple[Confirmation, list[LedgerLine], datetime] | None:
    """A confirmation to show with its history, and the time."""
    found = read_history(tx, confirmation)
    return None if found is None else (*found, now(tx))


def _from_window(click: Click, view: JsonObject) -> Click:
    """A click in a window belongs to where that was opened."""
    if view.get("type") != "modal":
        return click
    _, opened, url, _ = modals.read_metadata(view.get("private_metadata"))
    if opened is None or opened.person != click.seat.person:
        return click
    return replace(click, seat=replace(opened, trigger=click.seat.trigger, window=click.seat.window), url=url)


_SAYS = {
    Callback.DENY: VoteKind.DENY,
    Callback.RUN_AGAIN: VoteKind.RUN_AGAIN,
    Callback.WITHDRAW: VoteKind.WITHDRAW,
}


def _read(
    callback: Callback, ref: Ref, row: Confirmation, values: JsonObject, terms: str, policies: Policies
) -> SubmittedForm:
    """Reads a submitted form. If the vote can't count any more, its fields are not read, since they may be another
    revision's: when it is counted, its author learns why it is too late."""
    if ref.revision != row.revision.number or row.state is not State.WAITING:
        return SubmittedForm(kind=_SAYS.get(callback, VoteKind.APPROVE))
    match callback:
        case Callback.DENY:
            return modals.read_denial(row, values)
        case Callback.WITHDRAW:
            return SubmittedForm(kind=VoteKind.WITHDRAW)
        case Callback.EDIT:
            return modals.read_edit(row, values, policies)
        case _:
            return modals.read_approval(row, values, terms, policies)
