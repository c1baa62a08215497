"""Everything that is sent to Slack or read from it: calls, facts about people, and tokens.

A new Slack method is one more line in `outbound/methods.py`, and usually a function in `outbound/client.py`. Rates,
retries and errors are changed in `outbound` alone. Nothing here decides anything about a call. Begin with
`outbound/client.py`.
"""
