"""The rules in force: the policies as they are in the file now, and the key that signs what is decided by them."""

from __future__ import annotations

from dataclasses import dataclass

from bot.audit.fingerprint import Seal
from bot.policy.model import Policies


@dataclass
class Rules:
    """What counting a vote needs besides the row.

    `policies` are those of the file as it is now: look here each time, because `reload.py` replaces them.
    """

    policies: Policies
    seal: Seal
