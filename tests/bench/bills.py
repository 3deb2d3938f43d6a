"""The bills of 20,000 projects with relations and adjustments, from rated records to stored documents.

Every tenth project is billed inside another one's bill, half are members of groups in groups, every fourth is
managed by a partner: a bill has up to four adjustments, or none. Beside the seconds stands a minute, the limit that was
set. The bills are made in a process of its own, whose peak memory is compared with that for a tenth of the projects.
TALLY_BENCH_PROJECTS is how many projects there are.
"""

import os
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

from tally.services.bills import make_bills
from tally.store.database import Connection, connected
from tally.store.metering.runs import select_runs
from tests.bench.databases import database

PROJECTS = int(os.environ.get("TALLY_BENCH_PROJECTS") or 20_000)
RECORDS_PER_PROJECT = 20
LIMIT_SECONDS = 60
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def run(server_url: str, projects: int = PROJECTS) -> list[dict[str, object]]:
    """Measure seconds and the peak memory of the process."""
    _, small = _measured(server_url, max(projects // 10, 1))
    seconds, peak = _measured(server_url, projects)
    each = seconds / (projects * RECORDS_PER_PROJECT)
    return [
        _result("bills_20000_projects_s", round(seconds, 2), "s", "the limit", LIMIT_SECONDS),
        _result("bills_20000_projects_peak_mib", peak, "MiB", "a tenth of the projects", small),
        _result("bills_us_per_usage_record", round(each * 1e6, 1), "us", "the aim", 25),
    ]


def _measured(server_url: str, projects: int) -> tuple[float, int]:
    with database(server_url, "metering") as url:
        with connected(url) as metering:
            fill(metering, projects)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            return process.submit(_make, url).result()


def _make(url: str) -> tuple[float, int]:
    """Seconds for the bills of the only run, and the peak of this process in MiB."""
    with connected(url) as metering:
        (begun,) = select_runs(metering)
        start = time.perf_counter()
        make_bills(metering, begun)
        seconds = time.perf_counter() - start
    # What getrusage tells is at least the peak of the parent.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return seconds, int(status.partition("VmHWM:")[2].split()[0]) // 1024


def fill(metering: Connection, projects: int) -> None:
    """Write a run of March with its projects, relations, usage and costs, all by SQL."""
    for statement in _FILL:
        query = statement.replace(":projects", str(projects)).replace(":records", str(RECORDS_PER_PROJECT))
        metering.execute(query.encode())
    metering.execute("vacuum analyze")


_ID = "md5('project ' || n)::uuid"
_FILL = (
    "insert into raw.loads (load_id, started_at, registry_version, events) values (1, '2026-05-01', 1, 0)",
    """insert into ledger.runs (period, period_from, period_to, zone, kind, status, preliminary, metered_to, load_id,
           registry_version, pricing_version, code_version)
       values ('2026-03', '2026-03-01', '2026-04-01', 'UTC', 'regular', 'running', false, '2026-04-01', 1,
           1, '2026-03', '')""",
    f"""insert into raw.projects (id, platform, cloud, external_id, name, load_id)
        select {_ID}, 'openstack', 'os', 'project-' || n, null, 1 from generate_series(1, :projects) as n
        union all select md5('group ' || n)::uuid, 'meta', 'groups', 'group-' || n, null, 1
        from generate_series(1, 110) as n
        union all select md5('partner ' || n)::uuid, 'meta', 'partners', 'partner-' || n, null, 1
        from generate_series(1, 50) as n""",
    f"""insert into raw.project_relations (id, version, source_id, target_id, relation_type, metadata, valid_from,
            load_id)
        select md5(n || 'tenant')::uuid, 1, md5('project ' || n - 1)::uuid, {_ID}, 'infrastructure_tenant',
            '{{}}'::jsonb, timestamptz '2026-01-01', 1
        from generate_series(10, :projects, 10) as n
        union all
        select md5(n || 'member')::uuid, 1, {_ID}, md5('group ' || 1 + n % 100)::uuid, 'member_of',
            '{{"pricing_adjustments": [{{"type": "project_discount", "rate": 0.05, "scope": "openstack.volume"}}]}}',
            '2026-01-01', 1
        from generate_series(1, :projects, 2) as n
        union all
        select md5(n || 'group')::uuid, 1, md5('group ' || n)::uuid, md5('group ' || 101 + n % 10)::uuid, 'member_of',
            '{{"pricing_adjustments": [{{"type": "surcharge", "rate": 0.015}}]}}', '2026-01-01', 1
        from generate_series(1, 100) as n
        union all
        select md5(n || 'managed')::uuid, 1, {_ID}, md5('partner ' || 1 + n % 50)::uuid, 'managed_by',
            '{{"pricing_adjustments": [{{"type": "discount", "rate": 0.15, "scope": "openstack.instance"}},
                {{"type": "kickback", "rate": 0.1}}]}}', '2026-01-01', 1
        from generate_series(1, :projects, 4) as n""",
    # Each instance is resized or stopped twice a month; every fifth record is of a volume.
    """insert into ledger.usage_records (cloud, platform, resource_type, resource_id, id, run_id, sign, project_id,
           state, lifetime_no, from_ts, to_ts, usage)
       select 'os', 'openstack', case when k % 5 = 0 then 'volume' else 'instance' end,
           'r-' || n || '-' || k / 4, md5(n || '/' || k)::uuid, run.id, 1, 'project-' || n,
           case k % 3 when 0 then 'shutoff' else 'active' end, 1,
           timestamptz '2026-03-01' + make_interval(secs => k % 4 * 600000 + n % 1000 * 1.000001),
           timestamptz '2026-03-01' + make_interval(secs => k % 4 * 600000 + 600000 + n % 1000 * 1.000001),
           case when k % 5 = 0 then jsonb_build_object('minutes', 10000, 'count', 1, 'size_gb', 10 + k, 'type', 'ssd')
               else jsonb_build_object('minutes', 10000, 'count', 1, 'vcpus', 1 + k % 8, 'ram_gb', 2 + k % 16,
                   'disk_gb', 20, 'egress_gb', n % 100 * 0.125, 'flavor', 'm1.' || k % 8) end
       from ledger.runs as run, generate_series(1, :projects) as n, generate_series(0, :records - 1) as k""",
    """insert into ledger.rated_records (cloud, platform, resource_type, resource_id, id, run_id, usage_record_id,
           project_id, dimension, quantity, price, state_modifier, type_modifier, amount_exact, amount, currency,
           pricing_version)
       select u.cloud, u.platform, u.resource_type, u.resource_id, md5(u.id || p.metric)::uuid, u.run_id, u.id,
           u.project_id, p.metric, cost.quantity, p.price, cost.modifier, 1, round(cost.exact, 12),
           round(cost.exact, 2), 'EUR', '2026-03'
       from ledger.usage_records as u
       inner join ledger.prices as p
           on p.version = '2026-03' and p.platform = u.platform and p.resource_type = u.resource_type
       cross join lateral (
           select quantity, modifier, quantity * p.price * modifier
               * case when p.formula = 'time_gauge' then extract(epoch from u.to_ts - u.from_ts) / 3600 else 1 end
               as exact
           from (select (u.usage ->> p.metric)::numeric as quantity,
               case when u.state = 'shutoff' and p.formula = 'time_gauge' then 0.5 else 1 end as modifier) as factors
       ) as cost
       where u.usage ? p.metric""",
)


def _result(name: str, value: float, unit: str, reference: str, reference_value: float) -> dict[str, object]:
    return {
        "name": name,
        "value": value,
        "unit": unit,
        "reference": reference,
        "reference_value": reference_value,
        "ratio": round(value / reference_value, 2),
    }
