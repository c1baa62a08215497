"""The Slack app: people, policies, cards and the audit.

CONTRIBUTING has the rooms in import order. Begin with `app.py`, which makes every part once and runs them, or with
`confirmation/states.py` to see what can happen to a call.
"""
