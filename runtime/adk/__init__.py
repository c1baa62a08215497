"""Code shared by our plugin for google-adk and the bot: reads sessions, signs answers, lets runs take turns.

The plugin itself is `runtime/adk_plugin.py`, a public name. Begin there.
"""
