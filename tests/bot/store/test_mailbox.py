"""What the agent gets in one message: the answers of one turn, once each is decided, and nothing else."""

from __future__ import annotations

from adk_confirm.bot.store.letters import Letter, SlackMessage, next_together, receive_reply
from tests.support.backoffice import Backoffice
from tests.support.deciding import ASKER, TEAM

TURNS = {"k1": "turn 1", "k2": "turn 2", "k3": "turn 1"}


def answer(number: int, confirmation: str) -> Letter:
    return Letter(number, "answer", f"m{number}", {}, None, confirmation)


FIRST, OTHER_TURN, SIBLING = answer(1, "k1"), answer(2, "k2"), answer(3, "k3")
WORDS = Letter(4, "words", "m4", {"text": "hello"}, "U0ANN", None)


def test_answers_of_one_turn_go_together_and_those_of_another_do_not() -> None:
    assert next_together([FIRST, OTHER_TURN, SIBLING], TURNS, set(), alone=True) == (FIRST, SIBLING)
    assert next_together([OTHER_TURN, FIRST, SIBLING], TURNS, set(), alone=True) == (OTHER_TURN,)


def test_a_turn_in_which_somebody_has_to_decide_waits_and_the_next_one_goes() -> None:
    assert next_together([FIRST, OTHER_TURN, SIBLING], TURNS, {"turn 1"}, alone=True) == (OTHER_TURN,)
    assert next_together([FIRST, SIBLING], TURNS, {"turn 1"}, alone=True) == ()


def test_words_wait_for_nobody() -> None:
    assert next_together([FIRST, WORDS, SIBLING], TURNS, {"turn 1"}, alone=True) == (WORDS,)


def test_a_refusal_belongs_to_its_turn() -> None:
    refusal = Letter(5, "refusal", "m5", {"turn": "turn 1"}, None, None)
    assert next_together([FIRST, refusal, OTHER_TURN], TURNS, set(), alone=True) == (FIRST, refusal)


def test_answers_of_no_turn_go_alone_or_with_all_that_wait() -> None:
    assert next_together([FIRST, SIBLING], {}, set(), alone=True) == (FIRST,)
    assert next_together([FIRST, SIBLING, WORDS, OTHER_TURN], {}, set(), alone=False) == (FIRST, SIBLING)
    assert next_together([FIRST, OTHER_TURN], {"k2": "turn 2"}, set(), alone=False) == (FIRST,)


async def test_a_reply_from_before_the_first_mention_is_not_for_the_agent(back: Backoffice) -> None:
    async def replies(ts: str) -> bool:
        heard = SlackMessage(
            app="oncall", team=TEAM, channel="C0DEPLOYS", thread_ts="1.1", ts=ts, person=ASKER, text="@ann, you too?"
        )
        return (await back.database.run(receive_reply, heard, False)).new

    await back.hears("shall we ask?", thread="1.1")
    assert not await replies("0.9")
    assert await replies("1795664433.000200")
