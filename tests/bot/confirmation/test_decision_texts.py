"""The sentences about calls that nobody is asked about."""

from __future__ import annotations

import pytest

from adk_confirm.bot.confirmation.decision_texts import ungoverned, ungoverned_to_model
from adk_confirm.bot.policy.model import CallRefusal, CallRefusalReason
from adk_confirm.bot.policy.redaction import own_words


@pytest.mark.parametrize("why", CallRefusalReason)
def test_every_call_that_nobody_is_asked_about_says_why(why: CallRefusalReason) -> None:
    found = CallRefusal(why, 2, own_words("the call has no 'env'"))
    people, model = ungoverned(found), ungoverned_to_model(found)
    assert people.endswith(".")
    assert people != model
