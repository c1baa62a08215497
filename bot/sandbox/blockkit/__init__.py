"""Slack's rules for blocks and views, as strict as the documentation. Begin with `blocks.py`."""
