"""A local workspace: what Slack does, on loopback, as strict as Slack and able to misbehave on demand.

The test-suite drives the real app against it, and a page shows it to newcomers. It is not for production.
"""
