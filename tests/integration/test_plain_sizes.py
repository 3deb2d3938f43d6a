"""One spelling of sizes in timelines: a size keeps all that it says, whatever it holds."""

import json

from tally.store.database import Connection

# (as it was told, in one spelling)
SIZES = [
    ('{"vcpus": 4.0, "ram_gb": 0.50, "disk_gb": 100}', '{"vcpus": 4, "ram_gb": 0.5, "disk_gb": 100}'),
    ('{"disks": [{"gb": 10.0}, {"gb": 1.10}], "vcpus": 2}', '{"disks": [{"gb": 10}, {"gb": 1.1}], "vcpus": 2}'),
    ('{"vcpus": 4.0, "tags": [], "labels": {}}', '{"vcpus": 4, "tags": [], "labels": {}}'),
    ('{"ports": [[], {}, [1.0]], "image": "ubuntu 22.10"}', '{"ports": [[], {}, [1]], "image": "ubuntu 22.10"}'),
    ('{"shared": false, "pool": null, "price": 1.0}', '{"shared": false, "pool": null, "price": 1}'),
    ("{}", "{}"),
]


def test_a_size_in_one_spelling_is_equal_to_the_one_that_was_told(metering: Connection) -> None:
    """Only zeros at the end of numbers go: the inventory, which keeps sizes as they were told, is compared with it."""
    for told, spelled in SIZES:
        row = metering.execute(
            "select raw.plain(%(told)s::jsonb)::text, raw.plain(%(told)s::jsonb) = %(told)s::jsonb", {"told": told}
        ).fetchone()
        assert row is not None
        assert (json.loads(row[0], parse_float=str, parse_int=str), row[1]) == (
            json.loads(spelled, parse_float=str, parse_int=str),
            True,
        )
