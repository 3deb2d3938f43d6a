"""SQL for what counts as of a run: the records of the runs that it stands on, but for what one of them has reversed.

The views ledger.effective_* say the same to whoever reads the ledger by hand. Statements that read a whole month name
the runs themselves, as %(members)s: from a list of values the planner knows how many records they have
written, and from the views it does not. What is done with the records does not belong here.
"""


def _unreversed(table: str) -> str:
    return f"""(
        select record.* from ledger.{table} as record
        where record.run_id = any(%(members)s) and record.sign = 1
            and not exists (
                select from ledger.{table} as reversal
                where reversal.run_id = any(%(members)s) and reversal.sign = -1
                    and reversal.cloud = record.cloud and reversal.resource_type = record.resource_type
                    and reversal.resource_id = record.resource_id and reversal.reverses_id = record.id
            )
    )"""


USAGE = _unreversed("usage_records")
RATED = _unreversed("rated_records")

# Of attributions, what has been taken back adds up to nothing.
ATTRIBUTIONS = """(
    select cloud, project_id, billed_cloud, billed_project_id, relation_id, relation_type, depth
    from ledger.attributions
    where run_id = any(%(members)s)
    group by cloud, project_id, billed_cloud, billed_project_id, relation_id, relation_type, depth
    having sum(sign) > 0
)"""

BILLS = """(
    select bill.* from ledger.bills as bill
    where bill.run_id = any(%(members)s) and bill.sign = 1
        and not exists (
            select from ledger.bills as reversal
            where reversal.run_id = any(%(members)s) and reversal.sign = -1 and reversal.reverses_run_id = bill.run_id
                and reversal.cloud = bill.cloud and reversal.project_id = bill.project_id
        )
)"""

ADJUSTMENTS = """(
    select line.* from ledger.adjustments as line
    where line.run_id = any(%(members)s) and line.sign = 1
        and not exists (
            select from ledger.adjustments as reversal
            where reversal.run_id = any(%(members)s) and reversal.sign = -1 and reversal.reverses_run_id = line.run_id
                and reversal.cloud = line.cloud and reversal.project_id = line.project_id
                and reversal.relation_id = line.relation_id and reversal.place = line.place
        )
)"""
