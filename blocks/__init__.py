"""Everything that people see in Slack: pure functions from a masked row to Slack's JSON. No I/O and no clock.

The bot makes a `Shown` (`adk_confirm.bot.confirmation.shown`) of a row, calls one function, and sends the result:

1. `card.card`, `thread.thread_messages`, `home.home_tab` and `home.approvals` draw messages and the Home tab.

2. `form.Form`, `form.approve_form`, `form.deny_form`, `full_view.everything`, … draw modals.

3. A submitted modal is read by what drew it: a `form.Form` of the same row.

4. A click's value is read by `click_ids.parse_ref`. It contains only a confirmation's id and revision.

Strings from agents and tools are in named fields of `Shown`, and are made safe here and nowhere else.
Begin with `card.py`.
"""
