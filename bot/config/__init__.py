"""What an operator sets: `adk-confirm.toml`, the environment, and what is wrong with either.

A setting that one part reads is added here and handed over in `app.py`; policies are in `policy`. Begin with
`settings.py`.
"""
