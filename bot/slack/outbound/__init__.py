"""Calls to Slack: one function for each thing the app does there, with rates, time limits and typed errors.

Begin with `client.py`; `calls.py` has the way of a single call, `errors.py` what can go wrong.
"""
