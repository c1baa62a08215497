"""Background work: counts votes, applies deadlines, draws cards, makes checkpoints. Also starts and stops all of it.

Begin with `worker.py`. `confirmation/schedule.py` computes what is due from a row's state.
"""
