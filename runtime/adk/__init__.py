"""Code shared by our plugin for google-adk and the bot: reads sessions, signs answers, lets runs take turns.

What the two say to each other is changed here alone. The plugin itself is `runtime/adk_plugin.py`, a public name. Begin
there.
"""
