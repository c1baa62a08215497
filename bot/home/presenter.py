"""Makes the view models of the Home tab and of `/approvals` from rows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from blocks.view import CardView, HomeView
from bot.cards.card_presenter import NO_LINKS, Links, card_view, grant_view
from bot.confirmation.grants import Grant
from bot.confirmation.model import Confirmation


def home_view(
    version: int,
    *,
    waiting: Sequence[Confirmation] = (),
    asked: Sequence[Confirmation] = (),
    here: Sequence[Confirmation] = (),
    grants: Sequence[tuple[Grant, Confirmation]] = (),
    links: Mapping[str, Links] | None = None,
    more_waiting: int = 0,
    more_asked: int = 0,
    more_here: int = 0,
    paused: bool = False,
) -> HomeView:
    """`waiting`: what the reader may decide. `asked`: what they asked for. `here`: what waits in the channel for
    others.

    Each grant comes with its confirmation, whose policy says what to hide. `links` are by confirmation. `version` is
    new for each drawing.
    """
    known = links or {}

    def cards(rows: Sequence[Confirmation]) -> tuple[CardView, ...]:
        return tuple(card_view(row, links=known.get(row.id, NO_LINKS)) for row in rows)

    return HomeView(
        version=version,
        waiting=cards(waiting),
        asked=cards(asked),
        here=cards(here),
        grants=tuple(replace(grant_view(grant, row.redactor), channel=_channel(row)) for grant, row in grants),
        more_waiting=more_waiting,
        more_asked=more_asked,
        more_here=more_here,
        paused=paused,
    )


def _channel(row: Confirmation) -> str | None:
    channel = row.asked.channel
    return None if channel.startswith("D") else channel or None
