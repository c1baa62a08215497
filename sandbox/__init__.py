"""A local Slack on loopback: as strict as Slack, and able to misbehave on demand.

The tests run the real app against it, and its page shows newcomers how the app works. It is not for production.
Anything in it may be changed without looking at the product, which does not import it. Begin with `server/server.py`.
"""
