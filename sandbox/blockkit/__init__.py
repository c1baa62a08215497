"""Slack's rules for blocks and views, as strict as the documentation.

When Slack changes a rule, it is changed here alone. Begin with `blocks.py`.
"""
