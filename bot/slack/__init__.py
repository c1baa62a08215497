"""Everything that goes out to Slack or is read from it: calls, who people are, and whose token is used.

A new Slack method is one more line in `outbound/methods.py`, and usually a function in `outbound/client.py`. Rates,
retries and errors change in `outbound` alone. Nothing here decides anything about a call. Begin with
`outbound/client.py`.
"""
