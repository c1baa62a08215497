"""Checks whose cost a stranger decides, run in a process that can be stopped.

What is checked stands beside its users (`mcp/schema_checks.py`, and expressions in the bot). Begin with `check.py`.
"""
