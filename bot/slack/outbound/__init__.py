"""Calls to Slack: one function for each thing that the app does there, with rates, time limits and typed errors.

`calls.py` makes a single call and repeats it, `errors.py` has the possible errors and how long to wait after each,
`methods.py` the rates; all of them are changed here alone. Begin with `client.py`.
"""
