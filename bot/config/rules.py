"""The policies and limits in force."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bot.config.settings import WaitingLimits
from bot.policy.model import Policies


@dataclass(frozen=True)
class Rules:
    """What opening a confirmation and counting a vote need besides the row."""

    policies: Policies
    limits: WaitingLimits = field(default_factory=WaitingLimits)


class RulesInForce:
    """The current rules. Read `now` each time, because `reload.py` replaces the policies."""

    def __init__(self, now: Rules) -> None:
        self.now = now

    def replace_policies(self, policies: Policies) -> None:
        self.now = replace(self.now, policies=policies)
