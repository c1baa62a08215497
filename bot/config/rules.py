"""The policies in force."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bot.policy.model import Policies


@dataclass(frozen=True)
class Rules:
    """What counting a vote needs besides the row."""

    policies: Policies


class RulesInForce:
    """The current rules. Read `now` each time, because `reload.py` replaces the policies."""

    def __init__(self, now: Rules) -> None:
        self.now = now

    def replace_policies(self, policies: Policies) -> None:
        self.now = replace(self.now, policies=policies)
