"""The Slack methods that the app calls, with Slack's rate limits."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """`per_minute` is Slack's limit. `repeatable`: a second call does no harm. `lookup`: a failed call
    is not repeated at once, since `Questions` repeats it. `within`: seconds after which the call is useless."""

    name: str
    per_minute: int
    repeatable: bool = True
    lookup: bool = False
    within: float = math.inf


POST = Method("chat.postMessage", 600, repeatable=False)
UPDATE = Method("chat.update", 50)
DELETE = Method("chat.delete", 50)
EPHEMERAL = Method("chat.postEphemeral", 100)
PERMALINK = Method("chat.getPermalink", 600)

START_STREAM = Method("chat.startStream", 20, repeatable=False)
APPEND_STREAM = Method("chat.appendStream", 100, repeatable=False)
STOP_STREAM = Method("chat.stopStream", 20, repeatable=False)
SUGGEST_PROMPTS = Method("assistant.threads.setSuggestedPrompts", 100)
SET_SESSION_STATUS = Method("agents.sessions.setStatus", 50)
RENAME_SESSION = Method("agents.sessions.rename", 50)

OPEN_VIEW = Method("views.open", 100, repeatable=False, within=3.0)  # a trigger is valid for three seconds
UPDATE_VIEW = Method("views.update", 100)
PUBLISH = Method("views.publish", 100)

OPEN_DM = Method("conversations.open", 50)
HISTORY = Method("conversations.history", 50)
REPLIES = Method("conversations.replies", 50)
CHANNEL_INFO = Method("conversations.info", 50, lookup=True)
CHANNEL_MEMBERS = Method("conversations.members", 50, lookup=True)

WHOAMI = Method("auth.test", 100)
USERS_INFO = Method("users.info", 100, lookup=True)
BY_EMAIL = Method("users.lookupByEmail", 50, lookup=True)
GROUPS = Method("usergroups.list", 20, lookup=True)
GROUP_USERS = Method("usergroups.users.list", 20, lookup=True)
