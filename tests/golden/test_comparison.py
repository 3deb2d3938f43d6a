"""The comparison of the golden tests finds what it is there to find."""

from decimal import Decimal

from tests.golden.comparison import differences


def test_numbers_compare_by_value_and_more_fields_may_be_there() -> None:
    """18.0 is 18, and what the requirement omits for brevity is no difference."""
    assert differences({"egress_gb": Decimal("18.0")}, {"egress_gb": 18, "count": 1}) == []


def test_every_wrong_missing_or_surplus_element_is_named() -> None:
    """A difference says where it is."""
    wanted = {"periods": [{"cost": Decimal("1.62")}], "total": 1, "state": "active"}
    assert differences(wanted, {"periods": [{"cost": Decimal("1.63")}], "state": "shutoff"}) == [
        "document.periods[0].cost is Decimal('1.63'); Decimal('1.62') is expected",
        "document.total is missing; 1 is expected",
        "document.state is 'shutoff'; 'active' is expected",
    ]
    assert differences([1], [1, 2]) == ["document has 2 elements; 1 are expected"]


def test_a_float_a_text_and_a_boolean_are_no_numbers() -> None:
    """Money in binary or in quotes is wrong even where it looks right."""
    assert differences(1, 1.0) != []
    assert differences(Decimal("0.5"), 0.5) != []
    assert differences(1, "1") != []
    assert differences(1, True) != []
    assert differences("1", 1) != []


def test_descriptions_are_free_text() -> None:
    """They may be worded otherwise, or not at all."""
    assert differences({"description": "m1.large instance"}, {}) == []
