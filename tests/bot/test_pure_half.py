"""What the documentation of the deciding half shows is so; and the rooms beside it use the same names."""

from __future__ import annotations

import doctest
import importlib

import pytest

from blocks.told import Told, Why
from bot.authorise import Reason
from bot.ledger import LineKind
from bot.policy import Unfit, Ungoverned
from bot.words import ungoverned, ungoverned_to_model

SHOWN = [
    *("bot.authorise", "bot.checkpoints", "bot.confirmation", "bot.durations", "bot.export", "bot.expressions"),
    *("bot.ledger", "bot.people", "bot.policy", "bot.problems", "bot.redaction", "bot.seal", "bot.settings"),
    "tests.support.deciding",
]


@pytest.mark.parametrize("name", SHOWN)
def test_the_examples_hold(name: str) -> None:
    failed, attempted = doctest.testmod(importlib.import_module(name))
    assert attempted > 0
    assert failed == 0


def test_a_thread_tells_what_the_ledger_keeps() -> None:
    assert {str(told) for told in Told} <= {str(kind) for kind in LineKind}


def test_everybody_can_be_told_why_their_vote_does_not_count() -> None:
    assert {str(why) for why in Why} == {str(reason) for reason in Reason}


@pytest.mark.parametrize("why", Unfit)
def test_every_call_that_nobody_is_asked_about_says_why(why: Unfit) -> None:
    found = Ungoverned(why, 2, "the call has no 'env'")
    people, model = ungoverned(found), ungoverned_to_model(found)
    assert people.endswith(".")
    assert people != model
