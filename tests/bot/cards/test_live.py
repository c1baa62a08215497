"""The state of a streamed reply."""

from __future__ import annotations

from bot.cards.live import GROWS_EVERY, SOON, LiveReply
from bot.cards.markdown import LONGEST


def test_what_is_too_long_for_a_stream_is_not_collected() -> None:
    """It is posted when it is whole. Collecting it meanwhile would copy it with each part."""
    reply, part = LiveReply("run"), "x" * 99 + " "
    reply.add_text(part, at=0.0)
    assert reply.is_due(SOON)

    for _ in range(LONGEST):
        reply.add_text(part, at=0.0)

    assert not reply.is_due(SOON + GROWS_EVERY)
    assert LONGEST < len(reply.text) <= LONGEST + len(part)
