"""Runs checks of untrusted input in a process that can be stopped.

The checks are next to their users (`mcp/schema_checks.py`, and expressions in the bot). Begin with `check.py`.
"""
