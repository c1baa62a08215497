"""What the documentation of the deciding half shows is so; and the rooms beside it use the same names."""

from __future__ import annotations

import doctest
import importlib

import pytest

from bot.confirmation.words import ungoverned, ungoverned_to_model
from bot.policy.model import CallRefusal, CallRefusalReason

SHOWN = [
    *(
        "bot.confirmation.authorise",
        "bot.audit.checkpoints",
        "bot.confirmation.decision",
        "bot.policy.durations",
        "bot.operations.audit_export",
        "bot.policy.when",
    ),
    *(
        "bot.audit.ledger",
        "bot.policy.approvers",
        "bot.policy.model",
        "bot.policy.problems",
        "bot.policy.redaction",
        "bot.audit.fingerprint",
        "bot.config.settings",
    ),
    "tests.support.deciding",
]


@pytest.mark.parametrize("name", SHOWN)
def test_the_examples_hold(name: str) -> None:
    failed, attempted = doctest.testmod(importlib.import_module(name))
    assert attempted > 0
    assert failed == 0


@pytest.mark.parametrize("why", CallRefusalReason)
def test_every_call_that_nobody_is_asked_about_says_why(why: CallRefusalReason) -> None:
    found = CallRefusal(why, 2, "the call has no 'env'")
    people, model = ungoverned(found), ungoverned_to_model(found)
    assert people.endswith(".")
    assert people != model
