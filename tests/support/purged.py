"""Ledger lines as a purge leaves them."""

from __future__ import annotations

from dataclasses import replace

from adk_confirm.bot.audit.ledger import LedgerLine


def without_content(line: LedgerLine) -> LedgerLine:
    """The line without its content. It keeps its place in the chain."""
    return replace(line, content=None, salt=None)
