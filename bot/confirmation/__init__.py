"""The life of one confirmation: asked, voted on, edited, decided, and what became of its call. Pure.

Every rule about votes, rights, deadlines and outcomes changes here alone and is tested without a database. What is
stored has a version: change `stored_json.py` with the model. Begin with `states.py`, then `decision.py` and
`votes.py`.
"""
