"""Configuration: `adk-confirm.toml` and the environment, and the problems in both.

A new setting is added here and passed to its part in `app.py`. Policies are in `policy`. Begin with `settings.py`.
"""
