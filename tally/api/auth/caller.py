"""What the API asks of whoever knows the callers."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from starlette.datastructures import Headers

from tally.domain.principal import Principal, Role
from tally.store.database import Connection

Connect = Callable[[], AbstractContextManager[Connection]]  # to the reporting database


class Authenticator(Protocol):
    """Knows the callers."""

    def authenticate(self, headers: Headers, peer: str, connect: Connect) -> Principal | None:
        """Return who sends a request from the address ``peer``; None if it holds no proof of an identity.

        Raises:
            Problem: 401 if the proof is not good.
            Unavailable: if it cannot be judged now.
        """


class Development:
    """Takes everybody for an operator. The server that uses it listens on the loopback interface only."""

    def authenticate(self, headers: Headers, peer: str, connect: Connect) -> Principal:  # noqa: ARG002
        """Ask for nothing."""
        return Principal("development", Role.OPERATOR)
