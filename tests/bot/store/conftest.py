"""A call that waits for its approval, for those who then write to the database."""

from __future__ import annotations

import pytest

from adk_confirm.sandbox.people.seen import Seen
from tests.support.office import Office

DINNER = "reimburse 1500 for the team dinner"


@pytest.fixture
async def card(at: Office) -> Seen:
    """What ann asks for in the office that is open. Nothing else is left to do."""
    asked = await at.ask(DINNER)
    await at.rests()
    return asked
