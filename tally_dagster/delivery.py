"""The step that delivers documents. How that is done belongs to tally.services.deliver."""

from dagster import Failure, OpExecutionContext, op

from assets.steps import retried
from resources.clock import Clock
from resources.databases import Databases
from tally.services.deliver import deliver
from tally.services.delivery_targets import named, read_targets
from tally.settings import Settings


@op(description="Deliver the documents of finalized months to the targets that do not have them and are due.")
def delivered_documents(context: OpExecutionContext, databases: Databases, clock: Clock) -> None:
    """Deliver to every target; the run fails if one has not taken something, which is tried again when it is due."""
    destinations = named(read_targets(Settings.from_environment().delivery_targets), None)
    with retried(context):
        outcomes = deliver(databases.metering(), destinations, clock.now, only_due=True)
    context.add_output_metadata({outcome.target: outcome.delivered for outcome in outcomes})
    failed = [outcome for outcome in outcomes if outcome.failed]
    if failed:
        told = [f"{outcome.target} has not taken {outcome.failed} document(s)" for outcome in failed]
        stopped = [f"{outcome.target} was given up: {outcome.stopped}" for outcome in failed if outcome.stopped]
        raise Failure("; ".join([*told, *stopped, "see tally deliveries"]), allow_retries=False)
