"""The Web API's methods, by family. Each module maps Slack's method names to functions of one call.

A method is added or changed here alone, in the module of its family. Begin with `call.py`, then `chat.py`.
"""
