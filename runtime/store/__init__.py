"""The runtime's database: engines, transactions, leases, tables, sessions.

Others only use `database.py`; the rest can be changed without affecting them. Begin there.
"""
