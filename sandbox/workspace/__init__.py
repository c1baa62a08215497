"""The local Slack's records: people, channels, messages, views, installations.

What the local Slack remembers is changed here alone; who can change it is in `methods` and `server`. Begin with
`workspace.py`.
"""
