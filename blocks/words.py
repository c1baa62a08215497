"""Titles, the names of states, reasons, buttons, and texts that are used twice. Other texts stand where they are drawn.
An error says what happened and what to do next.

Fields in braces are filled with spans (`rich_text.say`); supplied strings never pass through here.
"""

from __future__ import annotations

from collections.abc import Mapping

from adk_confirm.blocks.ledger_kinds import Reason

# -- a card

HANDED_OVER = "handed over"
"""Beside the stages: a program got the call, and does not report how it ends."""

TITLES: Mapping[str, str] = {  # by stage; {what} is the headline: "Deploy checkout 2.4.1 to prod"
    "waiting": "{what}?",
    "approved": "👍 Approved: {what}",
    "running": "▶️ Running: {what}",
    "done": "✅ Done: {what}",
    HANDED_OVER: "📤 Handed over: {what}",
    "failed": "❌ Failed: {what}",
    "denied": "🚫 Denied: {what}",
    "refused": "⛔ Did not run: {what}",
    "expired": "⌛ Expired: {what}",
    "lapsed": "⌛ Not started in time: {what}",
    "withdrawn": "↩️ Withdrawn: {what}",
    "elsewhere": "🚨 Answered outside this app: {what}",
    "unknown": "⚠️ Did this take effect? {what}",
    "it happened": "📝 Took effect: {what}",
    "it did not": "📝 Did not take effect: {what}",
    "nobody knows": "❓ Outcome unknown: {what}",
}
OUTSIDE = {True: "approved", False: "denied", None: "answered"}  # by whether it is known whether it was approved
TITLES_QUESTION: Mapping[str, str] = {  # what differs for a question that an agent asks
    "waiting": "💬 {what}",
    "approved": "💬 Answered: {what}",
    "done": "✅ Answered: {what}",
    "refused": "⛔ Answer refused: {what}",
    "lapsed": "⌛ Answer not sent in time: {what}",
}
TITLES_OPERATION: Mapping[str, str] = {  # and for a long-running operation, which has begun when people are asked
    "waiting": "Let this continue? {what}",
    "done": "👍 Approved: {what}",
    "lapsed": "⌛ Answer not sent in time: {what}",
}

PREVIEW_FAILED = {  # by whether nobody may approve
    True: "⚠️ {nobody}: its plan failed. {then} The reason: {why}",
    False: "⚠️ Its plan failed: {why}",
}
CHECK_FIRST = "First check the system that it changes."
FAILED_STATUS = "It may be half done: check before you ask again."
DOT = " · "

HIDDEN_VALUE = "🔒 hidden"
NOTHING = "nothing"
NONE = "none"
YES, NO = "yes", "no"
EMPTY, EMPTY_LIST = "empty", "empty list"
RESULT = "Returned"
ARROW = " → "


def counted(count: int, name: str = "") -> str:
    """`60 recipients`, where the name is a plural; else `60 items`. Beside a name it is not said again."""
    noun = name.replace("_", " ").strip().lower()
    plain = noun.replace(" ", "").isascii() and noun.replace(" ", "").isalpha() and len(noun) <= 30
    if count == 1:
        return "1 item"
    return f"{count:,} {noun if plain and noun.endswith('s') and not noun.endswith('ss') else 'items'}"


def hidden(count: int) -> str:
    return f"{count} value{'s are' if count > 1 else ' is'} hidden by the policy."


def votes(count: int, quorum: int, noun: str = "approval") -> str:
    return f"{count} of {quorum} {noun}{'s' if quorum > 1 else ''}"


def needed(count: int, quorum: int, note: bool = False) -> str:
    """How many approvals are still missing. `note`: who approves has to write one."""
    missing, more = max(quorum - count, 1), "more " if count else ""
    return f"Needs {missing} {more}approval{'s' if missing > 1 else ''}{' with a note' if note else ''}"


UNTIL = "expires {when}"

SOMEBODY = "Somebody"
NOUN = {False: "call", True: "question"}  # by whether it is a question
ADD_APPROVERS = {  # by whether it is a question
    False: "Whoever keeps the policy file can add approvers.",
    True: "Whoever keeps the policy file can add people to answer it.",
}
ASKER = {
    False: "{asker} can't approve: they asked for it.",
    True: "{asker} can only withdraw this: the agent asks on their behalf.",
}
ONLY_ASKER = "{asker} asked for this, so can only deny or withdraw it."
SPEAKERS = {
    False: "{people} can't approve: they spoke to the agent here.",
    True: "{people} can't answer: they spoke to the agent here.",
}
ONLY_SPEAKERS = "{people} spoke to the agent here, so can only deny this call."

PAUSED = "⏸️ Runs are paused. Approved calls start once they are resumed."
PAUSED_BY = "⏸️ Runs are paused by {who}{why} Approved calls start once they are resumed."
STARTS_LATER = "⏸️ Starts once runs are resumed."
STARTS_LATER_BY = "⏸️ Paused by {who}{why} Starts once runs are resumed."
RESTARTING = "⏸️ Starts by itself once the app has restarted."
NOT_SEALED = (
    "🚨 Something about this call was written into the database by other means than this app. It does not count. Tell "
    "whoever runs it."
)
GRANT = "🔓 {runs} in this thread {time}: {calls}.{uses}"

LIMITS = {"<=": "up to", "<": "below", ">=": "at least", ">": "above"}
WITHIN = "within the policy"


def uses(most: int | None, used: int = 0) -> str:
    """How many calls a grant is good for, as a sentence."""
    if most is None:
        return f" Used {used} time{'s' if used > 1 else ''}." if used else ""
    return f" {used} of {most} used." if used else f" {counted(most, 'calls')} at most."


# -- buttons

APPROVE = "Approve"
DENY = "Deny"
REVIEW = "Review…"
ALLOW_MORE = "Allow more…"
DENY_OPENS = "Deny…"
WITHDRAW, WITHDRAW_OPENS = "Withdraw", "Withdraw…"
HAPPENED = "Yes, it did"
NOT_HAPPENED = "No, it didn't"
RUN_AGAIN = "Run again…"
REVOKE, REVOKE_OPENS = "Stop allowing", "Stop allowing…"
CLOSE, BACK = "Close", "Back"


CONFIRM_APPROVE = ("Approve this call?", "It runs when enough people approve, with the arguments on the card.")
CONFIRM_APPROVE_LAST = ("Approve this call?", "It runs with your approval.")
CONFIRM_HAPPENED = ("It took effect?", "Check first. You can't undo this.")
CONFIRM_DID_NOT = ("It did not take effect?", CONFIRM_HAPPENED[1])
CONFIRM_WITHDRAW = ("Withdraw this call?", "It won't run, and the agent learns that you withdrew it.")
CONFIRM_WITHDRAW_QUESTION = ("Withdraw this question?", "The agent continues without an answer.")
CONFIRM_REVOKE = ("Stop allowing this?", "Calls like this one need approval again.")


def run_again(voted: int, quorum: int, noun: str = "vote") -> tuple[str, str, str]:
    """The question before somebody votes, or approves, to run a call again, what follows, and the button."""
    more, twice = quorum - voted - 1, "If it did take effect, it happens twice."
    if more > 0:
        verb = {"vote": "Vote", "approval": "Approve"}[noun]
        return f"{verb} to run it again?", f"Runs after your {noun} and {more} more. {twice}", verb
    return "Run it again?", twice, "Run again"


# -- views

TITLE_EDIT, TITLE_GRANT = "Edit", "Allow more"


EDIT_INTRO = "The card then has the new plan. Approve it there."


def edit_counts(quorum: int) -> str:
    """What an edit does that needs no new plan."""
    more = f"Your edit counts as your approval. {quorum - 1} more {'is' if quorum == 2 else 'are'} needed."
    return more if quorum > 1 else "It runs with your edit: nobody else has to approve."


SUBMIT_EDIT = {False: "Approve edit", True: "Edit"}  # by whether there will be a plan to approve
EDIT_VOTED = " Others who approved must approve again."
EDIT_INTRO_DENIES = (
    "The agent's server takes no edits. Once approved, yours denies this call and tells the agent what you want. It "
    "will ask again."
)
STAYS = "Can't be changed"
TOO_MANY_FIELDS = "A form has no room for more fields. The values above can't be edited here."
NO_ROOM_TO_EDIT = "The call is too long to be edited in a window. Approve it as it is, or deny it and say why."
PAYLOAD_INTRO = "Your answer goes to the agent with your approval."
WANTED = "Required by the policy."
REASON_HINT = "The agent reads this, and can propose something better."

# -- fields

NOW = "Now: {value}"
HINTS = {"JSON": "JSON.{such} Keep quotes and brackets.", "LINES": "One on each line.", "MOMENT": "In your time zone."}

FIELD_REQUIRED = "Fill this in."
FIELD_NUMBER = "Write a number, such as 3 or 2.5, without separators."
FIELD_JSON = "This can't be read from “{rest}” on. Keep the quotes, commas and brackets as they were."
FIELD_JSON_QUOTES = 'Put text in straight double quotes, as in "text".'
FIELD_UNCHECKED = "takes too long to check. Leave it as it was"
FORM_UNREADABLE = "This form can't be shown, because its schema can't be read ({why}). Tell whoever runs the agent."
FIELD_UNREADABLE = "This could not be read. Close the form and open it again."
FIELD_GONE = "The policy has changed meanwhile. Close this form and open it again."
ITEM = "item {number}"
REMOVE = "Remove {item}"

# -- the thread and the history

LINE_CALL_REFUSED = "⛔ {tool} can't be approved."
LINE_REMINDED = "⏰ Reminder: {tool} has {votes}."
LINE_REMINDED_WHO = "⏰ Reminder for {approvers}: {tool} has {votes}. Expires {when}."
LINE_APPROVAL = "👍 {who} approved {tool}: {votes}."
LINE_ANSWER_CHANGED = "✏️ {who} approved {answer} for {tool} instead: {votes}. Earlier approvals no longer count."
LINE_ANSWER_CHANGED_WITH = "✏️ {who} approved {tool} with {answer} instead: {votes}. Earlier approvals no longer count."
LINE_NOT_SENT = "⌛ {tool} was decided, but the agent could not be reached in time."
LINE_UNSEALED = {
    "words": (
        "🚨 The agent does not get a message: somebody wrote it into the database, or put it back there after the "
        "agent had received it. Say it again."
    ),
    "letter": (
        "🚨 An answer to the agent has no seal of this app, so the agent does not get it: somebody wrote it "
        "into the database."
    ),
    "session": (
        "🚨 It is not known who spoke here: somebody changed this conversation in the database. Ask in a new thread."
    ),
    "line": "🚨 A line of the ledger was changed in the database. Run adk-confirm audit verify to see which.",
    "row": "🚨 Somebody changed the card of {tool} in the database, or put an older state of it back.",
    "call": "🚨 The call to {tool} in the database is not the one that was asked about. It does not run. Ask again.",
}
LINE_ALTERED = "🚨 {tool} did not run: it is not the call that was approved."
LINE_SETTLED = {
    True: "📝 {who} said that {tool} took effect.",
    False: "📝 {who} said that {tool} did not take effect.",
    None: "📝 {who} said how {tool} ended.",
}
LINE_NOBODY_KNOWS = "❓ Nobody knows whether {tool} took effect, not even the agent. Check the system."
LINE_GRANT_ENDED = "🔒 Calls of {tool} ask again, because the app was removed from this workspace."

NO_STEPS = "This {what} has no steps yet. Open it again in a moment."

# the thread's own lines
THREAD_NO_LONGER = "↘️ The approval of {who} no longer counts, because {editor} {edited} {tool}."
THREAD_ASKED_AGAIN = "↘️ {who}, decide again: {editor} {edited} {tool}, so your approval no longer counts."
THREAD_REMINDED = "⏰ Reminded {who} of {tool}, {at}."
THREAD_TRIES = "✋ {who} tried three times to decide on {tool}, but no vote counted: {why}."


NOTIFIED = "🔔 {approvers}"

# -- verdicts

TOO_LATE = "You are too late for {call}. "

WHY = {  # for the voter; what others read is in `Reason`
    Reason.NOT_APPROVER: "You can't {decide} this, because {unnamed}.",
    Reason.NO_APPROVERS: "Nobody can {decide} this one: the policy names no one. Ask whoever keeps the policy file.",
    Reason.REQUESTER: "You can't {act}, because you spoke to the agent in this conversation.",
    Reason.TURN_AUTHOR: "You can't {act}, because {asked}.",
    Reason.BARRED: "Your account is barred from deciding. Ask whoever keeps the policy file.",
    Reason.GUEST: "Guest accounts can't decide. Ask a full member of the workspace.",
    Reason.STRANGER: "Accounts of other companies can't decide. Ask a member of this workspace.",
    Reason.OTHER_WORKSPACE: "Accounts of other workspaces can't decide. Ask a member of this workspace.",
    Reason.BOT: "Bots can't decide.",
    Reason.DELETED: "This account is deactivated and can't decide.",
    Reason.CANNOT_ASK: "We could not find out whether you may decide. Vote again in a minute.",
    Reason.NOT_ASKER: "Only the person who asked can withdraw it.{or_deny}",
    Reason.OLDER_REVISION: "The card changed. Look again, then decide.",
    Reason.TOO_LATE: "You are too late: {call} is {state} already.",
    Reason.ALREADY_VOTED: "You already {approved}.",
    Reason.REASON_WANTED: "The policy asks for a reason. Press Deny again and give one.",
    Reason.NOTE_WANTED: "The policy asks for a note with each approval. Press Approve… on the card and write one.",
    Reason.PAYLOAD_WANTED: "This needs an answer. Press {approve}… on the card and fill in the form.",
    Reason.NO_PREVIEW: "Nobody can approve this, because its plan is not known. Deny it, and ask again.",
    Reason.NOT_EDITABLE: "{fields} can't be edited under this policy.",
    Reason.WRONG_KIND: "{fields} must stay the same kind of value: a text, a number, or yes or no.",
    Reason.REPEATS_HIDDEN: "{fields} would show a value that the policy hides. Leave that value out.",
    Reason.OTHER_POLICY: "With this change another policy would apply. Deny this, and let the asker ask anew.",
    Reason.NOTHING_TO_SETTLE: "This has already been answered. The card shows how.",
    Reason.NOTHING_TO_REVOKE: "This has already ended: calls like it ask again.",
    Reason.USED_UP: "This is used up: calls like it ask again.",
    Reason.UNSEALED: "This vote was not stored by the app, so it does not count. If it was yours, vote again.",
    Reason.SPEAKERS_UNKNOWN: "Somebody changed in the database who spoke here. Deny this, and ask in a new thread.",
}
AGENT_FAILED = "⚠️ The agent could not answer. Nothing ran."
CAUSES = {  # by how the code begins with which a model's server refuses
    "429": "Its model takes no more requests for now. Wait a minute.",
    "401": "Its model refuses the key.",
    "403": "Its model refuses the key.",
    "5": "Its model does not answer.",
}

# -- to somebody who wrote in a thread

REPLY_HINT = (
    "The agent did not read this: mention {bot} to reach it. To stop what waits: Deny… or ⋯ → Withdraw… on its card."
)
REPLY_HINT_VOTE = "Words don't count as a vote, and the agent did not read this. Press a button instead."
REPLY_HINT_BARS = f"{REPLY_HINT_VOTE} If you mention {{bot}} here, you can't approve any more."
STOP_IT = "Your message alone does not stop what waits for approval. Do you want to stop it?"
SPOKE = "You spoke to the agent, so you can no longer approve {calls}. You can still deny."

# -- Home and lists

HOME_WAITING = "Waiting for you"
HOME_EMPTY = "Nothing waits for you."
HOME_UNSURE = (
    "A call that waits for you may be missing here, because who may decide could not be looked up. Its card is in "
    "its thread."
)
HOME_MORE = "… and {count} more, once these are decided."
LIST_MORE = "… and {count} more. Open this app's Home tab to see them."

STATES: Mapping[str, str] = {
    **{
        stage: title.partition(" ")[2].partition(":")[0].lower()
        for stage, title in TITLES.items()
        if stage != HANDED_OVER
    },
    **{"waiting": "waiting", "unknown": "outcome unknown"},
}
"""What the title says, as a word: `did not run`."""

HELP_WHERE: Mapping[tuple[str, ...], str] = {  # by what somebody wrote, without a plural's "s"
    ("grant", "revoke"): "this app's Home tab lists what you allowed",
    ("history", "detail", "audit", "log", "withdraw"): "it is in the ⋯ menu of the card",
    ("approve", "deny", "edit"): "the card has a button for that",
    ("list", "pending", "waiting", "all", "mine"): "alone, it lists what waits",
}
HELP_LISTS = "/approvals help says what there is"
HELP = (  # what is between stars is bold
    "*What you can do*",
    "*/approvals* lists what waits for you and in this channel. Only you see it.",
    "*Approve* gives your one vote. *Allow more…* also lets calls like it run without asking, for a while.",
    "*Deny…* stops the call. One denial is enough.",
    "*Edit…* changes the call and its plan. Your approval replaces earlier ones.",
    "*⋯* on a card: all details, history, and *Withdraw…* for your own call. The *Home* tab lists what you asked for, "
    "decided and allowed.",
)


def duration(seconds: float) -> str:
    """About how long: `2 h 5 min`."""
    if seconds < 10:
        return "less than 0.1 s" if seconds < 0.1 else f"{seconds:.1f} s"
    return " ".join(units_of_time(round(seconds))[:2])


def units_of_time(seconds: int) -> list[str]:
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, seconds = divmod(seconds, size)
        parts += [f"{count:,} {unit}"] if count else []
    return parts or ["0 s"]
