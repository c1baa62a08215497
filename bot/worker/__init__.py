"""The work that goes on by itself: counting, timers, drawing, checkpoints, and how it is started and stopped.

Begin with `worker.py`. What is due is computed in `confirmation/schedule.py`, never assigned.
"""
