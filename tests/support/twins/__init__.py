"""One cast of agents, played by a real `google-adk` server and by ours, for tests that compare the two.

`scenes` describes the agents without either's imports; `adk` and `ours` bring them on; `normal` makes their events
comparable. Neither side knows the script beforehand: a user's message carries it (`scenes.script`).
"""
