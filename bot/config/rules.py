"""The rules in force: the policies as the file has them now, and the key that seals what is decided by them."""

from __future__ import annotations

from dataclasses import dataclass

from bot.audit.fingerprint import Seal
from bot.policy.model import Policies


@dataclass
class Rules:
    """What counting needs beside the row: the file's policies, to hold an edit against, and the seal for its result.

    `policies` are those of the file as it is now: whoever needs them looks here each time (`reloading.py` puts them).
    """

    policies: Policies
    seal: Seal
