"""What people see: pure functions from frozen view models to Block Kit. No I/O, no clock, nothing of ours but `blocks`.

The bot builds a view (`blocks.view`) from its rows, calls one function, and sends what comes back:

1. `card.card`, `thread.story`, `home.inbox` and `home.approvals` draw messages and the Home tab.
2. `form.edit_form`, `form.approve_form`, `form.deny_form`, `whole.everything`, `batch.batch_form`, … draw modals.
3. A submitted modal goes back through the reader beside its builder: `form.read_edit`, `form.read_approval`, …
4. A click's value is read by `ids.parse_ref`; it holds a confirmation's id and revision, nothing else.

Strings that an agent or a tool supplied stand in named places of the views and are made inert here, nowhere else.
"""
