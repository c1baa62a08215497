"""Between a session's mailbox and its agent: requests come in, decisions go out, outcomes are copied.

How a request becomes a confirmation is changed in `intake.py` alone, and how a letter reaches a host in
`letters_to_host.py`. What an answer means is in `confirmation`. Begin with `session_worker.py`.
"""
