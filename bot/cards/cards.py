"""Posts and updates cards in Slack, and answers voters. A card is always drawn as a whole from its row.

There is one live card in each place. A post is noted in `attempts` before it is made. After a crash or a lost answer,
the card is searched for before it is posted again. A vote on a second copy counts; the copy is deleted when it is
found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from blocks.content import headline
from blocks.step_views import Counted, VerdictView
from blocks.verdict import verdict_message, verdict_modal, verdicts_modal
from bot.cards.card_presenter import card_view
from bot.cards.draw import PLAIN, CardContext, Drawing
from bot.cards.ledger_presenter import verdict_view
from bot.cards.places import CardPlaces
from bot.confirmation.model import Confirmation, Place
from bot.slack.directory.directory import Directory
from bot.slack.outbound.calls import Workspace
from bot.slack.outbound.client import Sender
from bot.slack.outbound.errors import Gone, Later
from bot.store.attempts import Attempts
from bot.store.repository import Session, read_confirmation
from runtime.jsontypes import JsonObject, as_text, texts
from runtime.store.database import Tx
from runtime.store.lease import Lease

_AGAIN = 10.0
_UNTIL_COUNTING = (0.1, 0.4, 1.0, 1.5)
"""When to check whether Slack already shows "Counting…", in seconds."""


class Cards:
    def __init__(self, sender: Sender, directory: Directory) -> None:
        self._sender, self._names = sender, directory.names
        self._places = CardPlaces(sender, directory)

    async def draw(
        self, lease: Lease, row: Confirmation, session: Session, around: CardContext = PLAIN
    ) -> tuple[Place, ...]:
        """Updates every place, and returns the places with what Slack answered.

        If some could be drawn, only those are returned, and the row stays due for the rest. If none could be drawn, the
        error is raised.
        """
        places, unknown = await self._places.of(row, session)
        sender, attempts = self._sender.under(lease.sure), Attempts(lease)
        drawing = Drawing(sender, attempts, row, session, around, self._names)
        facts = await drawing.draw(places, await self._places.accounts(row, session))
        if set(facts) == set(row.places):
            raise drawing.trouble or unknown or Later("drawing", _AGAIN, "nothing could be drawn")
        return facts

    async def reply(
        self, lease: Lease, target: JsonObject, body: JsonObject, together: Sequence[JsonObject] = ()
    ) -> None:
        """Shows voters the result of their vote: in the view that says "Counting…", in a window of its own, or beside
        the card.

        `target` names team and user, and where they look: a `view`, or a `trigger` to open one with, and `channel`,
        `thread_ts` and `message_ts`.
        `together`: what is known of everything that was decided in that view.
        """
        view, sender = as_text(target.get("view")), self._sender.under(lease.sure)
        if not view and verdict_view(body).counted is not Counted.REFUSED and target.get("message_ts"):
            return  # the card that they clicked shows the result
        verdict, *several = await lease.read(_verdict_views, [body, *together])
        at = Workspace(as_text(target.get("team")))
        if view:
            try:
                await _after_counting(
                    sender, at, view, as_text(target.get("hash")), _result_modal(target, verdict, several)
                )
                return
            except Gone:
                pass  # the voter closed the view meanwhile
        window = verdict_modal(verdict) if verdict.counted is Counted.REFUSED else None  # good news opens no window
        await sender.whisper(target, verdict_message(verdict), window)


async def _after_counting(sender: Sender, at: Workspace, view: str, submitted: str, verdict: JsonObject) -> None:
    """Updates the view after "Counting…". Slack may show the ack's "Counting…" later than an update that was sent after
    the ack, which would cover the result.

    A view's hash changes with every update. While it is the hash that was `submitted`, or that of our own update,
    "Counting…" is still to come. If the ack was lost, it never comes: Slack waits three seconds for it.
    """
    ours, read = submitted, False
    try:
        for pause in _UNTIL_COUNTING if ours else ():
            ours, read = (await sender.update_view(at, view, verdict, hash=ours)).hash, True
            await asyncio.sleep(pause)
    except Gone as gone:
        if gone.code != "hash_conflict":
            if read:
                return  # they closed the view
            raise
    await sender.update_view(at, view, verdict)


def _result_modal(target: JsonObject, verdict: VerdictView, several: Sequence[VerdictView]) -> JsonObject:
    if not several:
        return verdict_modal(verdict)
    waiting = len(texts(target.get("batch"))) - len(several)
    return verdicts_modal(several, waiting=waiting > 0)


def _verdict_views(tx: Tx, bodies: Sequence[JsonObject]) -> list[VerdictView]:
    rows = [read_confirmation(tx, as_text(body.get("confirmation"))) for body in bodies]
    return [
        verdict_view(body, what="" if row is None else headline(card_view(row)))
        for body, row in zip(bodies, rows, strict=True)
    ]
