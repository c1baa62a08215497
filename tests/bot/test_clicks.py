"""Where Slack's interactions come from: which workspace, and which organisation, whose token answers them."""

from __future__ import annotations

from typing import Any

import pytest

from bot.clicks import at_of, told_at
from bot.slack_calls import Workspace

USER = {"id": "U0ANN", "team_id": "T0HERS"}


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ({"team": {"id": "T0ACME"}, "enterprise": None}, Workspace("T0ACME")),
        ({"team": {"id": "T0ACME", "enterprise_id": "E0CORP"}}, Workspace("T0ACME", "E0CORP")),
        ({"team": None, "enterprise": {"id": "E0CORP"}}, Workspace("T0HERS", "E0CORP")),
        ({"team": {"id": "T0HERS"}, "view": {"app_installed_team_id": "T0ACME"}}, Workspace("T0ACME")),
        ({"team": None, "view": {"app_installed_team_id": "E0CORP"}}, Workspace("T0HERS", "E0CORP")),
    ],
)
def test_a_click_or_a_form(body: dict[str, Any], at: Workspace) -> None:
    assert at_of({"user": USER, **body}) == at


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ({"team_id": "T0ACME"}, Workspace("T0ACME")),
        ({"team_id": "T0ACME", "enterprise_id": "E0CORP"}, Workspace("T0ACME", "E0CORP")),
        ({"team_id": "T0ACME", "authorizations": [{"enterprise_id": "E0CORP"}]}, Workspace("T0ACME", "E0CORP")),
        ({"team_id": "T0ACME", "context_enterprise_id": "E0CORP", "authorizations": []}, Workspace("T0ACME", "E0CORP")),
        (
            {"team_id": "T0ACME", "context_enterprise_id": "E0OTHER", "authorizations": [{"enterprise_id": None}]},
            Workspace("T0ACME"),
        ),
    ],
)
def test_an_event_or_a_command(body: dict[str, Any], at: Workspace) -> None:
    assert told_at(body) == at
