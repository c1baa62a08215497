"""Forms with a schema from a hostile server: they are refused with a sentence, and the bot goes on."""

from __future__ import annotations

import json

from adk_confirm.blocks.words import FIELD_UNCHECKED, FORM_UNREADABLE
from tests.support.office import ON_SQLITE, Opens

pytestmark = ON_SQLITE

TOLD = FORM_UNREADABLE.format(why="it takes more than 0.1 s or 10 MB to check")
TARGET = "tests.support.costly_schemas"


async def test_a_form_that_costs_too_much_to_draw(open_office: Opens) -> None:
    async with open_office(target=f"{TARGET}:drawing") as at:
        card = await at.ask("pay 5")
        await at.bob.clicks(card, "Edit…")
        note = await at.bob.finds(TOLD, at.deploys, thread=card)
        assert note.ephemeral
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("Approved by bob", at.deploys, thread=card)


async def test_a_value_that_costs_too_much_to_check(open_office: Opens) -> None:
    async with open_office(target=f"{TARGET}:sending") as at:
        card = await at.ask("pay 5")
        await at.bob.clicks(card, "Edit…")
        form = await at.bob.gets_modal("Edit")
        value: object = "no object"
        for _ in range(14):  # three ways on at each level: four million places
            value = {"x": value}
        answer = await form.submits({"note": json.dumps(value)})
        assert FIELD_UNCHECKED in str(answer)
