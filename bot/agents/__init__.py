"""Between a session's mailbox and its agent: requests come in, decisions go out, outcomes are copied.

How a request becomes a confirmation is in `intake.py`; how an answer reaches a host is in `deliver.py`. Begin with
`session_worker.py`.
"""
