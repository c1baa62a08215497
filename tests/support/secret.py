"""The secret with which tests open their stores, unless a test has its own."""

from __future__ import annotations

from bot.audit.ledger import LedgerKeys

SECRET = "a secret that only tests know, long enough"
KEYS = LedgerKeys(SECRET)
