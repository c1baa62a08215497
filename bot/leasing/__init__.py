"""Rows that are due: claimed by one process at a time, attended, and tried again later when that fails.

Nothing here knows what a row means. Backoff, fairness and lease handling change here alone. Begin with
`lease_loop.py`.
"""
