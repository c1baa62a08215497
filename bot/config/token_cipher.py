"""Tokens at rest: sealed with a key from the environment before they reach the database, and opened after.

`ADK_CONFIRM_TOKEN_KEY` holds one Fernet key or, while it is being replaced, several with commas between them: the first
one seals, each of them opens. What an older one sealed is sealed anew at the next start; then it can go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import ConfirmError

if TYPE_CHECKING:  # an extra: only whoever serves several workspaces needs it
    from cryptography.fernet import Fernet

KEY = "ADK_CONFIRM_TOKEN_KEY"
HOW_TO_MAKE_ONE = 'python -c "from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())"'
NO_LIBRARY = "To seal the tokens of several workspaces takes a library: pip install 'adk-confirm[oauth]'."


class BadKey(ConfirmError):
    """What stands in the environment is no key; the message never shows it."""


class Unopenable(ConfirmError):
    """None of the keys that are there sealed this."""

    def __init__(self) -> None:
        super().__init__(
            f"A workspace's token can't be opened with {KEY}. Put the key that sealed it behind the present one, with "
            "a comma between them; or, if it is lost, install the app there again."
        )


class Vault:
    def __init__(self, keys: str) -> None:
        """Raises `BadKey` with a sentence that says how to make one."""
        fernets = [_fernet(key.strip()) for key in keys.split(",")]
        self._newest, self._older = fernets[0], fernets[1:]

    def seal(self, text: str) -> str:
        return self._newest.encrypt(text.encode()).decode("ascii")

    def open(self, sealed: str) -> str:
        opened = _opened(self._newest, sealed)
        for older in self._older:
            opened = opened if opened is not None else _opened(older, sealed)
        if opened is None:
            raise Unopenable
        return opened

    def seal_anew(self, sealed: str) -> str | None:
        """The same under the newest key; None when that is how it is sealed."""
        return None if _opened(self._newest, sealed) is not None else self.seal(self.open(sealed))


def _fernet(key: str) -> Fernet:
    try:
        from cryptography.fernet import Fernet
    except ModuleNotFoundError as error:
        raise BadKey(NO_LIBRARY) from error
    try:
        return Fernet(key)
    except ValueError:  # it may quote the key
        raise BadKey(f"This is no key to seal tokens with. Make one: {HOW_TO_MAKE_ONE}") from None


def _opened(fernet: Fernet, sealed: str) -> str | None:
    from cryptography.fernet import InvalidToken

    try:
        return fernet.decrypt(sealed.encode()).decode()
    except InvalidToken:
        return None
