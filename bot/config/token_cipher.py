"""Encrypts the workspaces' tokens before they are stored, with a key from the environment.

`ADK_CONFIRM_TOKEN_KEY` holds one Fernet key, or several with commas between them while the key is being replaced. The
first one encrypts, and each of them decrypts. The next start encrypts everything with the first key; after that the
others can be removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import ConfirmError

if TYPE_CHECKING:  # an extra, needed only for several workspaces
    from cryptography.fernet import Fernet

KEY = "ADK_CONFIRM_TOKEN_KEY"
HOW_TO_MAKE_ONE = 'python -c "from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())"'
NO_LIBRARY = "Serving several workspaces needs a library for their tokens: pip install 'adk-confirm[oauth]'."


class BadKey(ConfirmError):
    """The environment has no usable key. The message never shows its value."""


class Unopenable(ConfirmError):
    """None of the keys fits a stored token."""

    def __init__(self) -> None:
        super().__init__(
            f"A workspace's token can't be decrypted with {KEY}. Add the key that encrypted it after the present one, "
            "with a comma between them. If it is lost, install the app in that workspace again."
        )


class TokenCipher:
    def __init__(self, keys: str) -> None:
        """Raises `BadKey` with a sentence that says how to make a key."""
        fernets = [_fernet(key.strip()) for key in keys.split(",")]
        self._newest, self._older = fernets[0], fernets[1:]

    def seal(self, text: str) -> str:
        return self._newest.encrypt(text.encode()).decode("ascii")

    def open(self, sealed: str) -> str:
        opened = _decrypt(self._newest, sealed)
        for older in self._older:
            opened = opened if opened is not None else _decrypt(older, sealed)
        if opened is None:
            raise Unopenable
        return opened

    def seal_anew(self, sealed: str) -> str | None:
        """The same text, encrypted with the newest key. None if it already is."""
        return None if _decrypt(self._newest, sealed) is not None else self.seal(self.open(sealed))


def _fernet(key: str) -> Fernet:
    try:
        from cryptography.fernet import Fernet
    except ModuleNotFoundError as error:
        raise BadKey(NO_LIBRARY) from error
    try:
        return Fernet(key)
    except ValueError:  # the error may quote the key
        raise BadKey(f"This is not a key for tokens. Make one: {HOW_TO_MAKE_ONE}") from None


def _decrypt(fernet: Fernet, sealed: str) -> str | None:
    from cryptography.fernet import InvalidToken

    try:
        return fernet.decrypt(sealed.encode()).decode()
    except InvalidToken:
        return None
