"""What our plugin for google-adk and the bot share: reading sessions, signing answers, taking turns.

The plugin itself is `runtime/adk_plugin.py`, a public name. Begin there.
"""
