"""ADK's HTTP API over our runner.

What clients may send is in `bodies.py`, who may call is in `guard.py`. Begin with `api.py`.
"""
