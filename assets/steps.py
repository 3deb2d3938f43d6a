"""What every step of a run shares: the pool it queues in, and another attempt at what fails for a reason that passes.

Which reasons pass is decided in resources/transient.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from dagster import AssetCheckExecutionContext, AssetExecutionContext, OpExecutionContext, RetryRequested

from resources.databases import Metering
from resources.transient import is_transient
from tally.domain.run import Run
from tally.services import runs

Context = AssetExecutionContext | AssetCheckExecutionContext | OpExecutionContext

METERING_POOL = "metering"  # of one place: runs queue, instead of waiting for the metering lock in a process each
RETRIES = 3
WAIT_SECONDS = 20


@contextmanager
def retried(context: Context) -> Iterator[None]:
    """Try the step again, up to three times, if the block fails for a reason that may pass."""
    try:
        yield
    except Exception as error:
        if is_transient(error) and context.retry_number < RETRIES:
            context.log.warning("tried again in %s seconds: %s", WAIT_SECONDS, error)
            raise RetryRequested(RETRIES, WAIT_SECONDS) from error
        raise


@contextmanager
def making(context: Context, metering: Metering, run: Run) -> Iterator[None]:
    """Likewise; if the step is not tried again, the run ends with the reason, and its records are taken away."""
    try:
        with retried(context):
            yield
    except RetryRequested:
        raise
    except Exception:
        with runs.making(metering.connection, run):
            raise
