"""A step is tried again where that may help, and only so often; a refusal is the same the next time."""

from collections.abc import Callable

import pytest
from dagster import ExecuteInProcessResult, OpExecutionContext, RetryPolicy, RetryRequested, build_op_context, job, op

from assets.steps import RETRIES, retried
from tally.domain.errors import Refused, Unavailable


def executed(do: Callable[[OpExecutionContext], None]) -> ExecuteInProcessResult:
    """Run something as the one step of a job that is tried again without waiting."""

    @op(retry_policy=RetryPolicy(max_retries=RETRIES))
    def step(context: OpExecutionContext) -> None:
        do(context)

    @job
    def alone() -> None:
        step()

    return alone.execute_in_process(raise_on_error=False)


def test_a_lost_database_asks_dagster_for_another_attempt() -> None:
    """Three times, with time to come back in between."""
    asked = []

    def lose(context: OpExecutionContext) -> None:
        with pytest.raises(RetryRequested) as caught, retried(context):
            raise Unavailable("the database is starting")
        asked.append((caught.value.max_retries, caught.value.seconds_to_wait))

    assert executed(lose).success
    assert asked == [(3, 20)]


def test_a_refusal_fails_at_once() -> None:
    """A violated check or a missing price is no better in 20 seconds."""
    with pytest.raises(Refused), retried(build_op_context()):
        raise Refused("2026-03 cannot be run", ["no price version"])


def test_after_the_last_attempt_the_reason_is_told() -> None:
    """And not that it was tried too often."""
    attempts = []

    def lose(context: OpExecutionContext) -> None:
        attempts.append(context.retry_number)
        if context.retry_number < RETRIES:
            raise RuntimeError("tried again by the policy of this test")
        with retried(context):
            raise Unavailable("the database is still away")

    (failed,) = [event for event in executed(lose).all_events if event.is_step_failure]
    assert attempts == [0, 1, 2, 3]
    assert "the database is still away" in str(failed.step_failure_data.error)
