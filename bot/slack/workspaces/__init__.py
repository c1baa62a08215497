"""Where the app is installed: tokens, OAuth, and what happens when a workspace removes the app.

Begin with `tokens.py`.
"""
