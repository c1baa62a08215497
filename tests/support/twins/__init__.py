"""The same agents on a real `google-adk` server and on ours, for tests that compare the two.

`scenes` describes the agents without imports of either; `adk` and `ours` run them; `normal` makes their events
comparable. Neither side knows the script before: a user's message contains it (`scenes.script`).
"""
