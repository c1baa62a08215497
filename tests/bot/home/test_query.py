"""The lists of calls that one person sees in the Home tab and after `/approvals`."""

from __future__ import annotations

from dataclasses import replace

from blocks.home import approvals, home_tab
from blocks.view import HomeView
from bot.cards.card_presenter import Links, card_view
from bot.confirmation.model import Confirmation
from bot.home.query import grant_item
from tests.support.deciding import ANNA, Desk, make_asked, make_policy


def waiting(name: str, **policy: object) -> Confirmation:
    row = Desk(make_policy(**policy), make_asked(arguments={"token": "s3cr3t-t0ken", "n": 1})).row
    return replace(row, id=name)


def test_home_lists_what_i_may_decide_and_what_i_asked_for() -> None:
    desk = Desk(
        make_policy(grant="30m", redact=["token"]), make_asked(arguments={"token": "s3cr3t-t0ken"}, channel="C0DEPLOYS")
    )
    desk.approve(ANNA, grant=True)
    link = Links(card="https://acme.slack.com/archives/C1/p1")
    view = HomeView(
        version=3,
        waiting=(card_view(waiting("k1", redact=["token"]), links=link),),
        asked=(card_view(waiting("k2", redact=["token"])),),
        grants=(grant_item(desk.grants[0], desk.row),),
        more_waiting=2,
        paused=True,
    )
    home = str(home_tab(view))
    assert "https://acme.slack.com/archives/C1/p1" in home
    assert "k1.1" in home
    assert "k2.1" in home
    assert "s3cr3t-t0ken" not in home
    assert "Revoke grant" in home
    assert view.grants[0].channel == "C0DEPLOYS"
    assert "They appear as these are decided" in home


def test_a_channels_list_says_what_waits_here_for_others() -> None:
    listed = approvals(HomeView(version=1, here=(card_view(waiting("k1", redact=["token"])),), more_here=4))
    assert "Waiting in this channel" in str(listed.blocks)
    assert "s3cr3t-t0ken" not in str(listed.payload())
