-- The total of each bill is the sum of the rated amounts of the projects that are billed in it and of its surcharges
-- and discounts, and every rated amount is in exactly one bill; of a correction, together with the finalized records that
-- it stands on. A correction of some resources proves the bills that it has to do with: all others are as the runs
-- before it have proved them, since finalized rows never change.
-- Remedy: a project is attributed nowhere or twice, or a document lost a line; correct the relations of the project, then close again.
with members as (
    select member_id as run_id from ledger.run_sets where run_id = :run_id
),

-- What has been taken back adds up to nothing.
attributed as (
    select cloud, project_id, billed_cloud, billed_project_id
    from ledger.attributions
    where run_id in (select run_id from members)
    group by cloud, project_id, billed_cloud, billed_project_id
    having sum(sign) > 0
),

written as (
    select cloud, project_id from ledger.rated_records where run_id = :run_id
    union
    select cloud, project_id from ledger.attributions where run_id = :run_id
    union
    select cloud, project_id from ledger.adjustments where run_id = :run_id
    union
    select cloud, project_id from ledger.bills where run_id = :run_id
),

-- Also the bills that what is written was in before.
written_bills as (
    select cloud, project_id from written
    union
    select billed_cloud, billed_project_id
    from ledger.attributions
    inner join written using (cloud, project_id)
    where run_id in (select run_id from members)
),

projects_in_them as (
    select cloud, project_id from written_bills
    union
    select attributed.cloud, attributed.project_id
    from attributed
    inner join written_bills as bill
        on bill.cloud = attributed.billed_cloud and bill.project_id = attributed.billed_project_id
),

costs as (
    select cloud, project_id, sum(amount) as amount
    from ledger.rated_records
    /* of_some_resources inner join projects_in_them using (cloud, project_id) */
    where run_id in (select run_id from members)
    group by cloud, project_id
),

-- A kickback is owed beside the bill.
adjusted as (
    select cloud, project_id, sum(amount) as amount
    from ledger.adjustments
    where run_id in (select run_id from members) and type <> 'kickback'
    group by cloud, project_id
),

charged as (
    select
        coalesce(attributed.billed_cloud, costs.cloud) as cloud,
        coalesce(attributed.billed_project_id, costs.project_id) as project_id,
        sum(costs.amount) as amount,
        bool_or(attributed.cloud is null and costs.amount <> 0) as unattributed
    from costs
    left join attributed on attributed.cloud = costs.cloud and attributed.project_id = costs.project_id
    group by 1, 2
),

billed as (
    select
        cloud, project_id, coalesce(charged.amount, 0) + coalesce(adjusted.amount, 0) as amount,
        coalesce(charged.unattributed, false) as unattributed
    from charged
    full join adjusted using (cloud, project_id)
),

bills as (
    select cloud, project_id, sum(total) as total
    from ledger.bills
    where run_id in (select run_id from members)
    group by cloud, project_id
)

select
    cloud, 'bill' as resource_type, project_id as subject,
    'the bill says ' || coalesce(bills.total::text, 'nothing') || ', its line items and adjustments '
    || coalesce(billed.amount::text, 'nothing')
    || case when billed.unattributed then '; a project in it is attributed nowhere' else '' end as detail
from billed
full join bills using (cloud, project_id)
/* of_some_resources inner join written_bills using (cloud, project_id) */
where coalesce(bills.total, 0) <> coalesce(billed.amount, 0) or billed.unattributed
