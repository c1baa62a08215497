"""What the local Slack keeps: people, channels, messages, views, installations. Begin with `workspace.py`."""
