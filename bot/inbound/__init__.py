"""What comes in from Slack: signed requests, Socket Mode, clicks, forms, commands and messages.

A listener reads what came, runs one transaction and acknowledges; all else is the worker's. Which clicks and events are
understood is changed here and in `blocks/click_ids.py`. Begin with `bolt_app.py`, then `clicks_and_forms.py`.
"""
