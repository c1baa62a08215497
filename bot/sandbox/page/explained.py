"""One sentence for each thing that travels, for people who see it for the first time."""

from __future__ import annotations

from bot.audit.ledger import LineKind

REQUEST = "The agent's runtime pauses: this call runs only after a person's word, and the id says what to answer to."
ANSWER = "The decision goes back to the session with the request's id. Confirmed, the call runs, once."
LEDGER = "A line of the audit. Each is chained to the line before by its hash, so that none can change unseen."
LINES = {
    LineKind.ASKED: "A call needs somebody's word. The policy that decides about it is frozen with it.",
    LineKind.CALL_REFUSED: "No policy fits, or nobody may decide: refused at once, and the agent is told.",
    LineKind.REMINDED: "Nobody has decided yet: those who may are reminded.",
    LineKind.ESCALATED: "It took too long: more people may decide from here on.",
    LineKind.APPROVAL: "One person's yes to this revision.",
    LineKind.EDITED: "Somebody changed the arguments: a new revision, for which earlier approvals do not count.",
    LineKind.VOTE_REFUSED: "Somebody clicked who may not decide, or too late. It does not count, and it is on record.",
    LineKind.VOTE_FELL: "An approval no longer counts.",
    LineKind.REAPPLIED: "The policy file changed, and this call now stands under it.",
    LineKind.APPROVED: "Enough people said yes: the answer may go to the agent.",
    LineKind.DENIED: "One no decides. The call does not run, and the agent learns why.",
    LineKind.EXPIRED: "Nobody decided in time, which is a no.",
    LineKind.WITHDRAWN: "Whoever asked took it back.",
    LineKind.ELSEWHERE: "Somebody answered the agent past this app: an alarm.",
    LineKind.LAPSED: "It was approved, but could not begin in time: nothing runs late and unseen.",
    LineKind.BEGUN: "The call starts. It is never started a second time by itself.",
    LineKind.DONE: "The call ran, once. This is what became of it.",
    LineKind.FAILED: "The call ran, once, and ended in an error. The agent learns of it.",
    LineKind.REFUSED: "The agent's runtime would not run it: the tool is gone, or takes other arguments now.",
    LineKind.UNSEALED: "Something in the database did not come through this app, so it does not count: an alarm.",
    LineKind.ALTERED: "The database or the agent's server has another call than the one that was approved: an alarm.",
    LineKind.UNKNOWN: "Something died while the call ran. It won't run again by itself: people say what became of it.",
    LineKind.SETTLED: "Somebody said what became of the call, and the agent was told.",
    LineKind.RUN_AGAIN_VOTE: "One person's yes to a second attempt.",
    LineKind.RUN_AGAIN: "Enough people want a second attempt.",
    LineKind.NOBODY_KNOWS: "Nobody said what became of the call, and the agent was told just that.",
    LineKind.GRANTED: "From here on calls like this one run without asking, for a while.",
    LineKind.GRANT_USED: "A call ran without asking, by a grant that is named here.",
    LineKind.GRANT_REVOKED: "The grant is over: calls like this one ask again.",
    LineKind.CHECKPOINT: "A seal over all chains, by which a later change of any line would show.",
}

EVENT = "An event that the app subscribed to."
COMMAND = "A person ran a slash command. The app may answer with a message that only they see."
DELIVERIES = {
    "app_mention": "Somebody mentioned the app: this is how a conversation with the agent begins.",
    "message": "Something was said, edited or deleted where the app is. A mention comes this way as well.",
    "app_home_opened": "A person opened the app's Home tab, so that the app can bring it up to date.",
    "user_change": "Somebody's account changed. Who may decide is looked up when it matters.",
    "app_uninstalled": "The app was removed from the workspace.",
    "team_access_granted": "The organisation may use the app in some of its workspaces, from here on.",
    "team_access_revoked": "The organisation may not use the app in some of its workspaces any more.",
    "tokens_revoked": "The app's tokens are void from here on.",
    "block_actions": "A person used a control. Slack signs this, and waits three seconds for the app to say “got it”.",
    "view_submission": "A person submitted a form, with all that stands in its fields. The answer may name errors.",
    "view_closed": "A person closed a form without submitting it.",
    "block_suggestion": "A person typed into a menu, whose options the app provides.",
    "shortcut": "A person picked one of the app's shortcuts.",
    "message_action": "A person picked one of the app's shortcuts in a message's menu.",
}

CALL = "The app calls Slack."
CALLS = {
    "auth.test": "The app asks who it is.",
    "chat.postMessage": "The app posts a message, its blocks and the text that says the same.",
    "chat.postEphemeral": "The app shows a message to one person alone.",
    "chat.update": "The app redraws a message: this is how a card follows its state.",
    "chat.delete": "The app takes back a message of its own.",
    "chat.getPermalink": "The app asks for the link to a message.",
    "chat.startStream": "The app begins a reply that grows while the agent speaks.",
    "chat.appendStream": "The reply grows.",
    "chat.stopStream": "The reply is complete.",
    "assistant.threads.setStatus": "The app says that the agent is busy.",
    "views.open": "The app opens a form. The click that it answers must be no older than three seconds.",
    "views.push": "The app puts a form on top of the one before.",
    "views.update": "The app redraws a form that is open.",
    "views.publish": "The app redraws somebody's Home tab.",
    "users.info": "The app looks up a person: guests, bots and strangers never decide.",
    "users.lookupByEmail": "The app looks for a person by address, as a policy may name them.",
    "usergroups.users.list": "The app asks who is in a group: this is how it knows who is on call right now.",
    "usergroups.list": "The app asks which groups there are.",
    "conversations.info": "The app asks what kind of channel this is.",
    "conversations.members": "The app asks who is in the channel.",
    "conversations.replies": "The app reads a thread, to find a message whose post it lost sight of.",
    "conversations.history": "The app reads a channel.",
    "conversations.open": "The app opens a direct conversation.",
    "files.getUploadURLExternal": "The app asks where to put a file.",
    "files.completeUploadExternal": "The app shares the file.",
    "apps.connections.open": "The app asks for a connection, over which Slack then talks to it.",
}
