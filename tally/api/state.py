"""What all requests of one process share: settings, connections, the clock, who knows the callers."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fastapi import Request
from psycopg_pool import ConnectionPool

from tally.api.auth.caller import Authenticator
from tally.api.finalized import FinalizedPeriods
from tally.api.health import Health
from tally.api.load import Load
from tally.api.metrics import Metrics
from tally.services.installation import Databases
from tally.settings import Settings
from tally.store.database import Connection, pool

AdapterFactory = Callable[[str], Any]


@dataclass(frozen=True)
class State:
    """One per process."""

    settings: Settings
    clock: Callable[[], datetime]
    reporting: ConnectionPool[Connection]
    metering: ConnectionPool[Connection]
    authenticator: Authenticator
    adapters: Mapping[str, AdapterFactory]  # platform -> adapter of one of its clouds
    metrics: Metrics
    finalized: FinalizedPeriods
    health: Health
    load: Load


def state_of(request: Request) -> State:
    """Return the state of the process that serves a request."""
    state: State = request.app.state.tally
    return state


@contextmanager
def open_state(
    settings: Settings,
    databases: Databases,
    clock: Callable[[], datetime],
    authenticator: Authenticator,
    adapters: Mapping[str, AdapterFactory],
) -> Iterator[State]:
    """Open the connections, and watch the health, for a block."""
    health = Health(databases.reporting_url, adapters, settings.unhealthy_after)
    with (
        pool(databases.reporting_url, settings.api_connections, settings.api_statement_seconds) as reporting,
        pool(databases.metering_url, settings.api_connections, settings.api_statement_seconds) as metering,
        health.watching(),
    ):
        yield State(
            settings,
            clock,
            reporting,
            metering,
            authenticator,
            adapters,
            Metrics(),
            FinalizedPeriods(metering),
            health,
            Load.of(settings),
        )
