"""Posts and updates cards in Slack, and answers voters. A card is always drawn as a whole from its row.

There is one live card in each place. A post is noted in `attempts` before it is made. After a crash or a lost answer,
the card is searched for before it is posted again. A vote on a second copy counts; the copy is deleted when it is
found.
"""

from __future__ import annotations

from blocks.content import headline
from blocks.step_views import Counted
from blocks.verdict import verdict_message, verdict_modal
from bot.cards.card_presenter import card_view
from bot.cards.draw import PLAIN, CardContext, Drawing
from bot.cards.ledger_presenter import verdict_view
from bot.cards.places import CardPlaces
from bot.confirmation.model import Confirmation, Place
from bot.slack.directory.directory import Directory
from bot.slack.outbound.client import Sender
from bot.slack.outbound.errors import Later
from bot.store.attempts import Attempts
from bot.store.repository import Session, read_confirmation
from runtime.jsontypes import JsonObject, as_text
from runtime.store.lease import Lease

_AGAIN = 10.0


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
        facts = await drawing.draw(places, await self._places.accounts(row))
        if set(facts) == set(row.places):
            raise drawing.trouble or unknown or Later("drawing", _AGAIN, "nothing could be drawn")
        return facts

    async def reply(self, lease: Lease, target: JsonObject, body: JsonObject) -> None:
        """Shows voters the result of their vote, in a window or beside the card.

        `target` names the user, and where they look: a `trigger` to open a window with, and `channel`,
        `thread_ts` and `message_ts`.
        """
        if verdict_view(body).counted is not Counted.REFUSED and target.get("message_ts"):
            return  # the card that they clicked shows the result
        row = await lease.read(read_confirmation, as_text(body.get("confirmation")))
        verdict = verdict_view(body, what="" if row is None else headline(card_view(row)))
        window = verdict_modal(verdict) if verdict.counted is Counted.REFUSED else None  # good news opens no window
        await self._sender.under(lease.sure).whisper(target, verdict_message(verdict), window)
