"""What an operator configures: `adk-confirm.toml` and the environment, and the problems in both.

A new setting is added here and handed to its part in `app.py`; policies are in `policy`. Begin with `settings.py`.
"""
