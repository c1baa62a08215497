"""The work in the background: counting, timers, drawing, checkpoints, and how it is started and stopped.

Begin with `worker.py`. `confirmation/schedule.py` computes what is due from the state; nobody sets it.
"""
