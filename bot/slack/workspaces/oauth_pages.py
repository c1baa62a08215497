"""Texts about installing: what the person reads in the browser, and what the operator reads in the log."""

from __future__ import annotations

DONE = "adk-confirm is installed in {name}"
DONE_NEXT = "Invite it to a channel with /invite @adk-confirm, and mention it there. You can close this page."
FAILED = "adk-confirm was not installed"

_AGAIN = "Open /slack/install here and try again."

REASONS = {
    "access_denied": f"Nobody allowed it at Slack, so nothing was changed. If that was a mistake: {_AGAIN}",
    "invalid_browser": f"Begin at /slack/install, and finish in the same browser within ten minutes. {_AGAIN}",
    "invalid_state": f"This installation took longer than ten minutes, or was finished before. {_AGAIN}",
    "missing_code": f"Slack sent no code along. {_AGAIN}",
    "invalid_scope": "Slack does not know a scope that this app asks for. Tell whoever runs it.",
    "invalid_team_for_non_distributed_app": "This Slack app is not open to other workspaces. Whoever runs it can "
    "activate its distribution in the app's settings.",
}
ANY_REASON = f"Slack did not let it be installed. {_AGAIN} If it happens again, tell whoever runs this app."

CODES = {
    "invalid_code": f"Slack does not know the code that it sent along. {_AGAIN}",
    "code_already_used": f"This installation was finished before. {_AGAIN}",
    "bad_redirect_uri": "Slack sent you to another address than the app's settings have. Tell whoever runs it.",
}
"""Slack's errors about a code, which concern the person who installs."""

MISCONFIGURED = "Slack does not accept this app's credentials. Tell whoever runs it; its log says what to fix."
FIX = {
    "invalid_client_id": "SLACK_CLIENT_ID is not the app's Client ID, under Basic Information",
    "bad_client_secret": "SLACK_CLIENT_SECRET is not the app's Client Secret, under Basic Information",
}
FIX_ROTATION = (
    "an installation was declined: token rotation is on for this Slack app, which can't be undone; make a new app from "
    "`adk-confirm manifest`, and set its SLACK_CLIENT_ID, SLACK_CLIENT_SECRET and other secrets"
)
FIX_ANY = "look at SLACK_CLIENT_ID and SLACK_CLIENT_SECRET"

ROTATES = (
    "This Slack app has token rotation on, so that its tokens expire after twelve hours, and Slack never switches that "
    "off again. Ask whoever runs it to make a new Slack app from `adk-confirm manifest`, which leaves it off. Then "
    "install that one."
)
NO_BOT = f"Slack gave no bot token. {_AGAIN}"
WHOSE = (
    "Another workspace has this app already, and its policies do not say which workspace each is for. Ask whoever runs "
    'it to name them: team = "{id}" in those for yours. Then install it again.'
)
NOT_FOR_YOU = (
    'None of this app\'s policies is for you. Ask whoever runs it to write one with team = "{id}". '
    "Then install it again."
)

STORE = f"What Slack answered could not be stored just now. Wait a minute, then: {_AGAIN}"
SLACK_AWAY = f"Slack could not be reached. Wait a minute, then: {_AGAIN}"
