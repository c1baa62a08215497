"""The life of a call and of a turn, and how the model sees them. Pure.

The states of a call change here alone. Begin with `call.py`.
"""
