"""The rating of single records (rules 23, 26, 27), against the worked numbers of the requirement."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pricing.model import PriceVersion
from pricing.money import total
from pricing.price_file import parse_price_version
from pricing.rating import Rating, RatingFinding, rate

ROOT = Path(__file__).parents[3]
MINUTE = 60_000_000
M1_LARGE = {"count": 1, "vcpus": 4, "ram_gb": 8, "disk_gb": 80, "flavor": "m1.large"}
MARCH = 44_640


@pytest.fixture(scope="module")
def version() -> PriceVersion:
    return parse_price_version((ROOT / "pricing/models/2026-03.yaml").read_text(encoding="utf-8"), "2026-03.yaml")


def rated(
    version: PriceVersion, kind: str, minutes: int, usage: dict[str, Any], state: str = "active", **registry: Any
) -> Rating:
    platform, resource_type = kind.split(".")
    return rate(
        version,
        platform=platform,
        resource_type=resource_type,
        state=state,
        length_us=minutes * MINUTE,
        usage={"minutes": minutes, "count": 1} | usage,
        normal_states=registry.get("normal_states", ("active", "available", "in-use", "running")),
        descriptive=registry.get("descriptive", ()),
    )


def costs(rating: Rating) -> dict[str, str]:
    return {rate.dimension: str(rate.amount) for rate in rating.rates}


class TestWorkedExamples:
    @pytest.mark.parametrize(
        ("state", "minutes", "egress", "expected"),
        [
            ("active", 14400, "18.0", {"vcpus": "19.20", "ram_gb": "9.60", "disk_gb": "19.20", "egress_gb": "1.62"}),
            ("shutoff", 14400, "0", {"vcpus": "9.60", "ram_gb": "4.80", "disk_gb": "9.60", "egress_gb": "0.00"}),
            ("active", 15840, "22.5", {"vcpus": "21.12", "ram_gb": "10.56", "disk_gb": "21.12", "egress_gb": "2.03"}),
        ],
    )
    def test_a_powered_off_vm_costs_half_and_its_egress_in_full(
        self, version: PriceVersion, state: str, minutes: int, egress: str, expected: dict[str, str]
    ) -> None:
        """The seed's rating example; 22.5 GB x 0.09 is 2.025, half a cent up."""
        rating = rated(version, "openstack.instance", minutes, M1_LARGE | {"egress_gb": Decimal(egress)}, state)
        assert costs(rating) == expected
        assert rating.findings == ()

    def test_a_full_month_of_m1_large_costs_148_80_and_egress(self, version: PriceVersion) -> None:
        rating = rated(version, "openstack.instance", MARCH, M1_LARGE | {"egress_gb": Decimal("40.5")})
        assert costs(rating) == {"vcpus": "59.52", "ram_gb": "29.76", "disk_gb": "59.52", "egress_gb": "3.65"}
        assert total(rate.amount for rate in rating.rates[:3]) == Decimal("148.80")

    def test_a_shelved_vm_costs_nothing_but_its_egress(self, version: PriceVersion) -> None:
        rating = rated(version, "openstack.instance", MARCH, M1_LARGE | {"egress_gb": 1}, "shelved")
        assert costs(rating) == {"vcpus": "0.00", "ram_gb": "0.00", "disk_gb": "0.00", "egress_gb": "0.09"}

    @pytest.mark.parametrize(
        ("kind", "minutes", "usage", "state", "expected"),
        [
            ("openstack.volume", 14400, {"size_gb": 200, "type": "ssd"}, "in-use", {"size_gb": "4.80"}),
            ("openstack.volume", 17280, {"size_gb": 200, "type": "hdd"}, "in-use", {"size_gb": "2.88"}),
            ("openstack.floating_ip", MARCH, {"ip_version": 4}, "active", {"count": "3.72"}),
            ("hetzner.server", MARCH, {"vcpus": 2, "ram_gb": 4, "disk_gb": 40}, "off",
             {"vcpus": "11.16", "ram_gb": "5.95", "disk_gb": "11.90"}),
            ("stackit.server", MARCH, {"vcpus": 8, "ram_gb": 32, "disk_gb": 160}, "active",
             {"vcpus": "148.80", "ram_gb": "142.85", "disk_gb": "142.85"}),
            ("ionos.server", 60, {"cores": 4, "ram_gb": 16, "type": "ENTERPRISE"}, "running",
             {"cores": "0.09", "ram_gb": "0.08"}),
            ("gardener.shoot", MARCH, {"worker_count": 3}, "active", {"worker_count": "223.20"}),
            ("gardener.shoot", 4320, {"worker_count": 5}, "hibernated", {"worker_count": "0.00"}),
            ("harbor.repository", 24480, {"storage_gb": 10, "pulls": 812, "pushes": 47, "egress_gb": Decimal("38.5")},
             "active", {"storage_gb": "0.20", "egress_gb": "4.62", "pulls": "0.00"}),
        ],
    )
    def test_every_platform_is_rated_by_the_same_two_formulas(
        self,
        version: PriceVersion,
        kind: str,
        minutes: int,
        usage: dict[str, Any],
        state: str,
        expected: dict[str, str],
    ) -> None:
        rating = rated(version, kind, minutes, usage, state, descriptive=("ip_version",))
        assert costs(rating) == expected
        assert rating.findings == ()

    def test_a_transferred_volume_is_paid_by_both_owners_for_their_time(self, version: PriceVersion) -> None:
        """S22: 20,880 minutes cost A 3.48, 23,760 minutes cost B 3.96."""
        volume = {"size_gb": 100, "type": "ssd"}
        assert costs(rated(version, "openstack.volume", 20_880, volume)) == {"size_gb": "3.48"}
        assert costs(rated(version, "openstack.volume", 23_760, volume)) == {"size_gb": "3.96"}

    def test_splitting_in_five_minutes_costs_a_fifth_more_and_the_exact_amounts_show_it(
        self, version: PriceVersion
    ) -> None:
        """S49: 8,928 records of 5 minutes give 178.56 by the rule of rounding each record, 148.80 exactly."""
        five_minutes = rated(version, "openstack.instance", 5, M1_LARGE).rates
        assert [(str(r.amount), str(r.amount_exact)) for r in five_minutes] == [
            ("0.01", "0.006666666667"),
            ("0.00", "0.003333333333"),
            ("0.01", "0.006666666667"),
        ]
        records = MARCH // 5
        assert records == 8_928
        assert total(rate.amount for rate in five_minutes) * records == Decimal("178.56")
        exact = sum(rate.amount_exact for rate in five_minutes) * records
        assert abs(exact - Decimal("148.80")) < Decimal("0.00001")

    def test_a_second_is_rated_by_its_exact_length(self, version: PriceVersion) -> None:
        """S24: a sixtieth of a minute is no finite decimal; 1/3600 h x 5 workers x 0.10 is 0.000138888889."""
        rating = rate(
            version,
            platform="gardener",
            resource_type="shoot",
            state="active",
            length_us=1_000_000,
            usage={"worker_count": 5},
            normal_states=("active",),
        )
        assert str(rating.rates[0].amount_exact) == "0.000138888889"


class TestWhatIsMissing:
    def test_a_missing_gauge_is_reported_and_not_rated_as_zero(self, version: PriceVersion) -> None:
        """Rule 26, S12."""
        rating = rated(version, "openstack.instance", 60, {"vcpus": 4, "ram_gb": 8})
        assert costs(rating) == {"vcpus": "0.08", "ram_gb": "0.04"}
        assert rating.findings == (RatingFinding("missing_gauge", "disk_gb"),)

    def test_a_gauge_that_is_a_text_is_missing(self, version: PriceVersion) -> None:
        rating = rated(version, "openstack.volume", 60, {"size_gb": "100", "type": "ssd"})
        assert rating.findings == (RatingFinding("missing_gauge", "size_gb"),)

    def test_a_missing_counter_is_zero_and_nothing_to_report(self, version: PriceVersion) -> None:
        """Rule 27."""
        rating = rated(version, "openstack.instance", 60, M1_LARGE)
        assert "egress_gb" not in costs(rating)
        assert rating.findings == ()

    def test_an_unpriced_metric_is_reported(self, version: PriceVersion) -> None:
        """S42: a new dimension is not silently free."""
        rating = rated(version, "openstack.instance", 60, M1_LARGE | {"gpus": 2, "encrypted": True, "zone": "a"})
        assert rating.findings == (RatingFinding("unpriced", "gpus"),)

    def test_a_type_that_nobody_priced_is_reported(self, version: PriceVersion) -> None:
        """S42: a new type is not silently free."""
        rating = rated(version, "openstack.gpu_instance", 60, {"vcpus": 4})
        assert (rating.rates, rating.findings) == ((), (RatingFinding("unpriced", "*"),))

    def test_what_the_version_lists_as_unpriced_is_free_without_a_report(self, version: PriceVersion) -> None:
        assert rated(version, "openstack.image", 60, {"size_gb": Decimal("2.5")}) == Rating((), ())
        assert rated(version, "openstack.instance", 60, M1_LARGE | {"ingress_gb": 5}).findings == ()

    def test_minutes_count_and_descriptive_numbers_are_never_unpriced(self, version: PriceVersion) -> None:
        usage = {"storage_gb": 1, "image_count": 47}
        assert rated(version, "harbor.repository", 60, usage, descriptive=("image_count",)).findings == ()

    def test_an_unlisted_state_costs_full_price_and_is_reported_unless_normal(self, version: PriceVersion) -> None:
        """Rule 27, S13."""
        rating = rated(version, "openstack.instance", 60, M1_LARGE, "error")
        assert costs(rating)["vcpus"] == "0.08"
        assert rating.findings == (RatingFinding("unlisted_state", "error"),)

    def test_without_a_table_of_states_there_is_nothing_to_report(self, version: PriceVersion) -> None:
        assert rated(version, "stackit.server", 60, {"vcpus": 1, "ram_gb": 1, "disk_gb": 1}, "odd").findings == ()

    @pytest.mark.parametrize("usage", [{"type": "SSD"}, {}, {"type": 1}])
    def test_a_type_that_the_table_lacks_costs_full_price_and_is_reported(
        self, version: PriceVersion, usage: dict[str, Any]
    ) -> None:
        """S43: neither a silent 1.0 nor a silent 0."""
        rating = rated(version, "openstack.volume", 6000, {"size_gb": 100} | usage)
        assert costs(rating) == {"size_gb": "1.00"}
        assert [finding.kind for finding in rating.findings if finding.kind != "unpriced"] == ["unlisted_type"]

    def test_a_reversal_is_rated_as_the_negation(self, version: PriceVersion) -> None:
        """Rule 20: half a cent goes away from zero on both sides."""
        for quantity in (Decimal("22.5"), Decimal("-22.5")):
            rating = rated(version, "openstack.instance", 60, M1_LARGE | {"egress_gb": quantity})
            assert costs(rating)["egress_gb"] == ("2.03" if quantity > 0 else "-2.03")

    def test_a_float_in_usage_is_not_a_quantity(self, version: PriceVersion) -> None:
        rating = rated(version, "gardener.shoot", 60, {"worker_count": 3.0})
        assert rating.findings == (RatingFinding("missing_gauge", "worker_count"),)
