"""Between a session's mailbox and its agent: requests come in, decisions go out, outcomes are copied.

How a request becomes a confirmation is changed in `intake.py` alone, and how an answer reaches a host in `deliver.py`.
What an answer means is in `confirmation`. Begin with `session_worker.py`.
"""
