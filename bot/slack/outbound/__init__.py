"""Calls to Slack: one function for each thing that the app does there, with rates, time limits and typed errors.

Begin with `client.py`. `calls.py` makes a single call, `errors.py` has the possible errors.
"""
