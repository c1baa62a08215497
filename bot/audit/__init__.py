"""The ledger's lines, their chains, and the checkpoints over them. Pure: no database, no Slack.

How a line is hashed, signed or verified changes here alone, together with `docs/security.md`; storing and reading
lines is in `store`. Begin with `ledger.py`.
"""
