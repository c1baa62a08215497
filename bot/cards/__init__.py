"""Shows confirmations to people in Slack: cards, forms, thread lines, streamed replies.

Where cards go and when they are drawn is changed here alone. How they look is in `blocks`, which draws what
`Shown` holds of a row. A card can always be drawn again from its row. Begin with `draw.py`.
"""
