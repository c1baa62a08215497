"""Rows that are due: one process at a time claims and attends to a row, and tries again later if that fails.

Nothing here knows what a row means. Backoff, fairness and leases change in this room alone. Begin with
`lease_loop.py`.
"""
