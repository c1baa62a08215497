"""The policies and limits in force."""

from __future__ import annotations

from dataclasses import dataclass, field

from adk_confirm.bot.config.settings import WaitingLimits
from adk_confirm.bot.policy.model import Policies


@dataclass
class Rules:
    """What is in force now. Read it each time, because `reload.py` replaces the policies."""

    policies: Policies
    limits: WaitingLimits = field(default_factory=WaitingLimits)
