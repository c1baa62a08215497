"""The whole thing without Slack: the real bot and its agent against a local workspace with a web page."""
