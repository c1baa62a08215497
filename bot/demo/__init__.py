"""The product without Slack: the real bot and its agent, with a local workspace in the browser."""
