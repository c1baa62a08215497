"""The local Slack's records: people, channels, messages, views, installations. Begin with `workspace.py`."""
