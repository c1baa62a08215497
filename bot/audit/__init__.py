"""The ledger's lines, their chains, and the checkpoints over them. Pure: no database, no Slack.

To change how a line is hashed, sealed or verified, change only this room and `docs/security.md`. Storing and reading
lines is in `store`. Begin with `ledger.py`.
"""
