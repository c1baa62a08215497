"""One call's life and one turn's, and what the model is shown of them. Pure.

The states of a call change here alone. Begin with `call.py`.
"""
