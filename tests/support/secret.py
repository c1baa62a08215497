"""The secret with which tests open their stores, unless a test has its own."""

from __future__ import annotations

from adk_confirm.runtime.store.seal import Seal

SECRET = "a secret that only tests know, long enough"
KEYS = Seal(SECRET)
