"""Runs a session: a message arrives, the model is asked, tools are called, and the turn waits or ends.

The order of the steps and what is stored between them is changed here; what follows from a call's state is in `calls`.
Begin with `runner.py`, which is what users call, then `turn_loop.py`.
"""
