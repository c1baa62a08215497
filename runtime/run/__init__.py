"""Runs a session: a message arrives, the model is asked, tools are called, and the turn waits or ends.

Begin with `runner.py`, which is what users call, then `work.py`.
"""
