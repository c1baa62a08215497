"""A local Slack on loopback: as strict as Slack, and able to misbehave on demand.

The tests run the real app against it, and its page shows newcomers how the app works. It is not for production.
"""
