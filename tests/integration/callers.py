"""Callers of a live API whose roles a test decides: the authorization of queries without tokens."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers

from tally.api.auth.caller import Connect
from tally.domain.principal import Principal, ProjectKey, Role
from tests.integration.api_server import Client, live_api


@dataclass(frozen=True)
class ByName:
    """Knows callers by the name that they send."""

    callers: Mapping[str, Principal]

    def authenticate(self, headers: Headers, peer: str, connect: Connect) -> Principal | None:  # noqa: ARG002
        """Believe every name."""
        return self.callers.get(headers.get("authorization", ""))


def consumer(*projects: ProjectKey) -> Principal:
    """A customer that owns these projects."""
    return Principal("customer", Role.CONSUMER, projects=frozenset(projects))


@contextmanager
def api_for(
    reporting_url: str, metering_url: str, callers: Mapping[str, Principal], **options: Any
) -> Iterator[Mapping[str, Client]]:
    """Serve the API for a block, with a client for each caller."""
    with live_api(reporting_url, metering_url, authenticator=ByName(callers), **options) as nobody:
        yield {name: Client(nobody.url, {"Authorization": name}) for name in callers}
