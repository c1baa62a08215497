"""Configuration: `adk-confirm.toml` and the environment, and the problems in both.

A new setting is added in `settings.py` and passed to its part in `app.py`. Begin there. Policies are
in `policy`.
"""
