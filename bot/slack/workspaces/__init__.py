"""The workspaces that installed the app: tokens, OAuth, and what happens when one removes the app.

Begin with `tokens.py`.
"""
