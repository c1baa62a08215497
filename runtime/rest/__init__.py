"""ADK's HTTP API over our runner.

What clients may send is changed in `bodies.py` alone, and who may call in `guard.py`. What a call does is in `run`.
Begin with `endpoints.py`.
"""
