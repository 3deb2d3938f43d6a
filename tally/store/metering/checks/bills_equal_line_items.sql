-- The total of each bill is the sum of the rated amounts of the projects that are billed in it, and every rated
-- amount is in exactly one bill.
-- Remedy: a project is attributed nowhere or twice, or a document lost a line; correct the relations of the project, then close again.
with costs as (
    select cloud, project_id, sum(amount) as amount
    from ledger.rated_records
    where run_id = :run_id
    group by cloud, project_id
),

billed as (
    select
        coalesce(attributions.billed_cloud, costs.cloud) as cloud,
        coalesce(attributions.billed_project_id, costs.project_id) as project_id,
        sum(costs.amount) as amount,
        bool_or(attributions.run_id is null) as unattributed
    from costs
    left join ledger.attributions
        on
            attributions.run_id = :run_id
            and attributions.cloud = costs.cloud and attributions.project_id = costs.project_id
    group by 1, 2
),

bills as (
    select cloud, project_id, total from ledger.bills where run_id = :run_id
)

select
    cloud, 'bill' as resource_type, project_id as subject,
    'the bill says ' || coalesce(bills.total::text, 'nothing') || ', its line items '
    || coalesce(billed.amount::text, 'nothing')
    || case when billed.unattributed then '; a project in it is attributed nowhere' else '' end as detail
from billed
full join bills using (cloud, project_id)
where coalesce(bills.total, 0) <> coalesce(billed.amount, 0) or billed.unattributed
