"""Finds rows that are due and processes each in one process at a time. A row that fails is tried again later.

Nothing here depends on what a row means. Retry pauses, fairness and leases are changed in this room alone. Begin with
`lease_loop.py`.
"""
