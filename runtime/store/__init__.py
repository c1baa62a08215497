"""The runtime's database: engines, transactions, leases, tables, sessions.

`database.py` is what everybody else uses; the rest can be changed behind it. Begin there.
"""
