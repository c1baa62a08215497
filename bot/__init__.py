"""The Slack app: people, policies, cards and the audit.

The rooms, in import order: a room imports only from rooms earlier in this list (`tests/test_house.py` checks that):
policy, audit, config, confirmation, hosts, store, slack, telemetry, agents, cards, home, worker, operations,
inbound. Then comes `app.py`, which makes every part once and runs them. Last are `sandbox`, `demo`, `commands` and
`cli.py`. Begin with `app.py` to see the parts, or with `confirmation/states.py` to see what can happen to a call.
"""
