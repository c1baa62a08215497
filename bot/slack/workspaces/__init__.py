"""The workspaces that installed the app: tokens, OAuth, and what happens when one removes the app.

How tokens are kept is changed here and in `config/token_cipher.py`. All others only ask `tokens.py` for one. Begin
there.
"""
