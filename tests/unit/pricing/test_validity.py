"""Which version holds when: whole months, or days where a version splits a month."""

from datetime import UTC, date, datetime

import pytest

from pricing.model import MidPeriod, PriceVersion
from pricing.price_file import parse_price_version
from pricing.validity import check_versions, parts_of, whole
from tally.domain.errors import Refused
from tally.domain.period import BillingPeriod

MARCH = BillingPeriod(2026, 3)

FILE = """\
version: "{version}"
valid_from: "{valid_from}"
{more}
currency: "{currency}"
pricing:
  p:
    t:
      dimensions:
        - metric: m
          {dimension}
"""
GAUGE = "{type: time_gauge, price_per_unit_hour: 0.02}"


def version(
    name: str,
    valid_from: str = "2026-03",
    valid_to: str = "",
    *,
    mid_period: str = "",
    currency: str = "EUR",
    dimension: str = "type: time_gauge\n          price_per_unit_hour: 0.02",
) -> PriceVersion:
    keys = {"valid_to": valid_to, "mid_period": mid_period}
    more = "\n".join(f"{key}: {value}" for key, value in keys.items() if value)
    text = FILE.format(version=name, valid_from=valid_from, more=more, currency=currency, dimension=dimension)
    return parse_price_version(text, f"{name}.yaml")


def split(name: str, valid_from: str, valid_to: str = "", **fields: str) -> PriceVersion:
    return version(name, valid_from, valid_to, mid_period="split", **fields)


def parts(versions: list[PriceVersion], period: BillingPeriod = MARCH) -> list[tuple[str, datetime, datetime]]:
    return [(part.version.version, part.from_ts, part.to_ts) for part in parts_of(versions, period)]


def march(day: int, hour: int = 0) -> datetime:
    return datetime(2026, 3, day, hour, tzinfo=UTC)


class TestMonths:
    def test_a_version_holds_until_the_next_begins(self) -> None:
        versions = [version("b", "2026-05"), version("a", "2026-03")]
        for month, holds in {3: "a", 4: "a", 5: "b", 12: "b"}.items():
            period = BillingPeriod(2026, month)
            assert parts(versions, period) == [(holds, period.start, period.end)]

    def test_an_april_list_does_not_rate_may(self) -> None:
        """S39: never another month's price; the message lists what is loaded."""
        april = version("april", "2026-04", "2026-05")
        assert [name for name, *_ in parts([april], BillingPeriod(2026, 4))] == ["april"]
        with pytest.raises(Refused, match=r"no price version is valid for 2026-05.*april \(from 2026-04 up to"):
            parts_of([april], BillingPeriod(2026, 5))

    def test_a_month_before_all_versions_or_between_two_has_none(self) -> None:
        versions = [version("a", "2026-03", "2026-04"), version("b", "2026-06")]
        for month in (2, 4, 5):
            with pytest.raises(Refused, match=f"no price version is valid for 2026-0{month}"):
                parts_of(versions, BillingPeriod(2026, month))
        with pytest.raises(Refused, match="loaded: none"):
            parts_of([], MARCH)

    def test_a_version_can_be_made_to_price_any_month_whole(self) -> None:
        (part,) = whole(split("b", "2026-07-16"), MARCH)
        assert (part.from_ts, part.to_ts) == (MARCH.start, MARCH.end)


class TestDays:
    def test_a_split_month_changes_at_the_first_instant_of_the_day(self) -> None:
        """S38: the version that begins says so, whatever the one before it says."""
        versions = [version("a"), split("b", "2026-03-16")]
        assert parts(versions) == [("a", march(1), march(16)), ("b", march(16), MARCH.end)]
        assert [name for name, *_ in parts(versions, BillingPeriod(2026, 4))] == ["b"]

    def test_a_day_begins_where_the_zone_of_the_period_puts_its_first_instant(self) -> None:
        """In Berlin an hour before UTC; in Beirut, whose clocks skip midnight on 29 March, at one o'clock."""
        berlin = parts([version("a"), split("b", "2026-03-16")], BillingPeriod(2026, 3, "Europe/Berlin"))
        assert berlin[1] == ("b", march(15, 23), datetime(2026, 3, 31, 22, tzinfo=UTC))
        beirut = parts([version("a"), split("b", "2026-03-29")], BillingPeriod(2026, 3, "Asia/Beirut"))
        assert beirut[1][1] == march(28, 22)

    def test_three_versions_can_share_a_month(self) -> None:
        versions = [split("c", "2026-03-20"), version("a", "2026-01"), split("b", "2026-03-10")]
        assert parts(versions) == [("a", march(1), march(10)), ("b", march(10), march(20)), ("c", march(20), MARCH.end)]

    def test_a_split_version_can_end_with_a_day_and_another_one_follows(self) -> None:
        versions = [split("a", "2026-03", "2026-03-10"), split("b", "2026-03-10")]
        assert parts(versions) == [("a", march(1), march(10)), ("b", march(10), MARCH.end)]

    @pytest.mark.parametrize(
        ("versions", "gap"),
        [
            ([split("b", "2026-03-16")], "none holds from 2026-03-01 up to, not including, 2026-03-16"),
            ([split("a", "2026-03", "2026-03-31")], "none holds from 2026-03-31 up to, not including, 2026-04-01"),
            (
                [split("a", "2026-03", "2026-03-10"), split("b", "2026-03-12")],
                "none holds from 2026-03-10 up to, not including, 2026-03-12",
            ),
        ],
    )
    def test_a_month_of_which_a_day_has_no_version_is_not_rated(self, versions: list[PriceVersion], gap: str) -> None:
        check_versions(versions)
        with pytest.raises(Refused, match=f"no price version is valid for 2026-03: {gap}"):
            parts_of(versions, MARCH)

    def test_a_day_within_a_month_is_the_next_month_where_the_period_start_counts(self) -> None:
        """S38: March is rated by the prices of its first day, April by the new ones, as if it said April."""
        within = version("b", "2026-03-16", mid_period="period_start")
        assert within == version("b", "2026-04")
        assert within.content_hash == version("b", "2026-04").content_hash
        assert version("b", "2026-12-16", mid_period="period_start").valid_from == date(2027, 1, 1)

    def test_a_split_version_reads_back_as_it_was_written(self) -> None:
        made = split("b", "2026-03-16", "2026-07-02")
        assert (made.mid_period, made.content["valid_from"], made.content["valid_to"]) == (
            MidPeriod.SPLIT, "2026-03-16", "2026-07-02",
        )
        assert made.span == "b (from 2026-03-16 up to, not including, 2026-07-02)"


class TestCollisions:
    def test_an_equal_valid_from_collides(self) -> None:
        """S40: refused when loaded, not at billing."""
        with pytest.raises(Refused, match="a and b both begin with 2026-03"):
            check_versions([version("b"), version("a")])

    def test_a_valid_to_past_the_next_version_collides(self) -> None:
        """S40."""
        with pytest.raises(Refused, match=r"a \(from 2026-03 up to, not including, 2026-06\) reaches into b"):
            check_versions([version("a", "2026-03", "2026-06"), version("b", "2026-05")])
        with pytest.raises(Refused, match=r"a \(from 2026-03 up to, not including, 2026-04\) reaches into b"):
            check_versions([version("a", "2026-03", "2026-04"), split("b", "2026-03-16")])

    def test_all_collisions_are_named_together(self) -> None:
        with pytest.raises(Refused) as caught:
            check_versions([version("a"), version("b"), version("c", "2026-05", "2026-07"), version("d", "2026-06")])
        assert len(caught.value.reasons) == 3

    def test_an_open_version_and_one_that_ends_where_the_next_begins_do_not_collide(self) -> None:
        check_versions([version("a"), version("b", "2026-05", "2026-06"), version("c", "2026-06")])


class TestChanges:
    """What cannot change inside a month, and can with the first of one."""

    COUNTER = "type: counter\n          price_per_unit: 0.02"

    def test_two_currencies_do_not_share_a_month(self) -> None:
        """Rule 25: amounts of two currencies are never added."""
        francs = split("b", "2026-03-16", currency="CHF")
        with pytest.raises(Refused, match="a is in EUR, b in CHF: amounts of two currencies are never added"):
            check_versions([version("a"), francs])
        check_versions([version("a"), version("b", "2026-04", currency="CHF")])

    def test_a_metric_does_not_turn_from_time_to_counting(self) -> None:
        with pytest.raises(Refused, match=r"p\.t\.m turns from price_per_unit_hour to price_per_unit between a and b"):
            check_versions([version("a"), split("b", "2026-03-16", dimension=self.COUNTER)])
        check_versions([version("a"), version("b", "2026-04", dimension=self.COUNTER)])

    def test_tiers_count_the_same_group_all_month_also_over_a_version_without_tiers(self) -> None:
        def free(per: str) -> str:
            return f"{self.COUNTER}\n          free_quantity: {{quantity: 10, per: {per}}}"

        versions = [
            version("a", dimension=free("project")),
            split("b", "2026-03-10", dimension=self.COUNTER),
            split("c", "2026-03-20", dimension=free("resource")),
        ]
        with pytest.raises(Refused, match="turns from tiers per project to tiers per resource between a and c"):
            check_versions(versions)
        check_versions([versions[0], split("b", "2026-03-10", dimension=free("project"))])
