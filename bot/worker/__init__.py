"""Background work: counts votes, applies deadlines, draws cards, makes checkpoints. Also starts and stops all of it.

How often the work is done, and what happens when it fails, is changed here, in `runtime/store/jobs.py`, and in
`runtime/store/lease_loop.py`. `confirmation/outcome.py` computes what is due from a row's state. Begin with
`worker.py`.
"""
