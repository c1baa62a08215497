"""The door: programs that are no agents of ours ask the same people. It is cooperative: only the bot's own tools are
held until people decide; a caller that ignores a No is not stopped.

The caller is the model of an agent of our own runtime, so all that follows is the product as it is. Begin with
`host.py`, then read `asks.py` for what is stored, `permit.py` for what a caller gets, and `site.py` for the HTTP.
"""
