"""An agent runtime that supports ADK's tool confirmation: calls are stored and run exactly once. It does not depend on
Slack. Users import its names from `adk_confirm`.

Begin with `agent.py` and `tool.py`, then `run/runner.py`.
"""
