-- Normal states and descriptive attributes, as of the registry version of the run.
select distinct on (types.platform, types.resource_type)
    types.platform, types.resource_type, types.normal_states, types.descriptive
from {{ source('raw', 'resource_types') }} as types
inner join {{ ref('stg_runs') }} as run on types.version <= run.registry_version
order by types.platform, types.resource_type, types.version desc
