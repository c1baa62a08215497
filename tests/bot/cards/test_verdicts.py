"""What somebody sees after they submit a form: nothing if the card shows the result, otherwise a sentence."""

from __future__ import annotations

from tests.support.office import Opens

TWO = '[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL", "user:U0LEAD"]\nquorum = 2\n'


async def test_a_form_that_counts_closes_and_the_card_shows_it(open_office: Opens) -> None:
    async with open_office(TWO) as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        await at.bob.clicks(card, "Edit…")
        form = await at.bob.gets_modal("Edit")
        await form.submits({"amount": 1200})
        redrawn = await at.cyd.finds("Approved by bob · Needs 1 more approval", at.deploys, thread=card)
        assert "amount 1,500 → 1,200" in redrawn
        assert redrawn.text.startswith("Reimburse €1,200 for the team dinner?")
        assert not form.is_open()

        await at.cyd.clicks(redrawn, "Deny…")
        await (await at.cyd.gets_modal("Deny")).submits({"Reason": "too much"})
        await at.cyd.finds("Denied: Reimburse", at.deploys, thread=card)
        await at.rests()
        assert at.cyd.modal() is None
        assert not at.slack.calls_of("chat.postEphemeral")


async def test_windows_name_people_as_their_cards_do(open_office: Opens) -> None:
    async with open_office(TWO) as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        await at.bob.clicks(card, "Approve")
        card = await at.cyd.finds("Approved by bob · Needs 1 more approval", at.deploys, thread=card)
        for button, words in (
            ("History", "bob approved it: 1 of 2 approvals."),
            ("See everything", "Asked by ann through oncall"),
            ("See everything", "Approved by bob · Needs 1 more approval from @oncall or @lead"),
        ):
            await at.cyd.clicks(card, button)
            window = await at.cyd.gets_modal(words)
            assert "@bob" not in window
            assert "@ann" not in window
            window.closes()
