"""The secret that stores in tests are opened with, where a test does not bring its own."""

from __future__ import annotations

from bot.audit.ledger import LedgerKeys

SECRET = "a secret that only tests know, long enough"
KEYS = LedgerKeys(SECRET)
