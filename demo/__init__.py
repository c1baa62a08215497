"""The product without Slack: the real bot and its agent, with a local workspace in the browser.

The people, the policies and the tour are changed here alone. The local Slack is in `sandbox`. Begin with `stage.py`.
"""
