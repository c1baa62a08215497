"""Slack's limits on calls. A test turns them on when it needs them."""

from __future__ import annotations

import math
from collections import defaultdict, deque

from adk_confirm.sandbox.refusals import ApiRefusal

PER_MINUTE = 60.0
POSTS_PER_SECOND = 1.0


def rate_limited(retry_after: float) -> ApiRefusal:
    seconds = max(1, math.ceil(retry_after))
    return ApiRefusal("ratelimited", status=429, headers={"Retry-After": str(seconds)})


class Rates:
    """Per method and workspace, and per channel for posts; off unless `methods` or `posts` is set."""

    def __init__(self) -> None:
        self.methods = False
        self.posts = False
        self.own_limits: dict[str, int] = {}
        """Limits of this app alone, such as one `conversations.replies` a minute."""
        self._calls: dict[tuple[str, str], deque[float]] = defaultdict(deque)
        self._posted: dict[str, float] = {}

    def check(self, method: str, per_minute: int, team_id: str, now: float) -> None:
        if not self.methods and method not in self.own_limits:
            return
        limit = self.own_limits.get(method, per_minute)
        recent = self._calls[method, team_id]
        while recent and recent[0] <= now - PER_MINUTE:
            recent.popleft()
        if len(recent) >= limit:
            raise rate_limited(recent[0] + PER_MINUTE - now)
        recent.append(now)

    def check_post(self, channel_id: str, now: float) -> None:
        if not self.posts:
            return
        free_at = self._posted.get(channel_id, 0.0) + 1 / POSTS_PER_SECOND
        if now < free_at:
            raise rate_limited(free_at - now)
        self._posted[channel_id] = now
