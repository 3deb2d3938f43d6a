"""The page of a bill: readable by people and by screen readers, closed to the outside, whatever names hold."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any

from pricing.documents.bill_page import BillPage, Issue, render_bill_page
from tests.unit.pricing.bills_of_month import bill, discount, item, period

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'
ISSUED = datetime(2026, 4, 4, tzinfo=UTC)


class Elements(HTMLParser):
    """The elements of a page in their order, each with its attributes and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), []))

    def handle_data(self, data: str) -> None:
        if self.found:
            self.found[-1][2].append(data.strip())

    def of(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        """Attributes and text of each element with a name."""
        return [(attributes, " ".join(filter(None, text))) for name, attributes, text in self.found if name == tag]


def page_of(*documents: dict[str, Any] | None, **changes: Any) -> str:
    """The page of a project whose bill was issued, and then corrected day by day."""
    issues = [
        Issue(f"run-{number}", ISSUED + timedelta(days=number), document, "a" * 64)
        for number, document in enumerate(documents)
    ]
    fields = {
        "period": "2026-03", "zone": "UTC", "status": "finalized", "issuer": "Example Cloud", "cloud": "os",
        "project_id": "shop", "project_name": "Web Shop", "issues": issues,
    }  # fmt: skip
    return render_bill_page(BillPage(**(fields | changes)))


def test_nothing_on_a_page_comes_from_elsewhere_or_runs() -> None:
    """No scripts, no links, no pictures but its own, whatever a platform calls its things."""
    hostile = item(HOSTILE, period(state=HOSTILE, usage={HOSTILE: 1}, cost={HOSTILE: Decimal("7.44")}),
                   description=HOSTILE, resource_type=HOSTILE)  # fmt: skip
    document = bill(hostile, project_id=HOSTILE, adjustments=[discount("-1.00", description=HOSTILE)])
    elements = Elements(page_of(document, project_id=HOSTILE, project_name=HOSTILE, issuer=HOSTILE))
    outside = {"script", "img", "link", "a", "iframe", "object", "base"}
    assert {name for name, _, _ in elements.found}.isdisjoint(outside)
    attributes = {name for _, attributes, _ in elements.found for name in attributes}
    assert not [name for name in attributes if name.startswith("on") or name in {"src", "href", "srcset", "data"}]
    ((_, style),) = elements.of("style")
    assert "url(" not in style
    assert "@import" not in style


def test_a_screen_reader_can_read_it() -> None:
    """A language, a title, one first heading, headed tables, and every picture in words."""
    elements = Elements(page_of(bill(item()), bill(item(), item("more"))))
    assert elements.of("html")[0][0]["lang"] == "en"
    assert elements.of("title")[0][1] == "Bill 2026-03 of Web Shop — Example Cloud"
    assert len(elements.of("h1")) == 1
    assert {attributes["scope"] for attributes, _ in elements.of("th")} == {"col", "row"}
    assert len(elements.of("thead")) == len(elements.of("table"))
    pictures = [attributes for attributes, _ in elements.of("svg")]
    assert {picture["role"] for picture in pictures} == {"img"}
    assert pictures[0]["aria-label"] == "from 1 March 00:00 in-use (size_gb 100)"


def test_a_correction_says_what_it_changes() -> None:
    """Only what costs something else is listed; the difference has a sign."""
    page = page_of(bill(item(), item("gone")), bill(item()))
    assert "Credit note 1 of 5 Apr 2026 00:00" in page
    assert "volume gone" in page.partition("Credit note 1")[2].partition("</article>")[0]
    assert "volume data" not in page.partition("Credit note 1")[2].partition("</article>")[0]
    assert "\u22127.44" in page
    assert "Credit note" not in page_of(bill(item()), bill(item(), item("new")))


def test_a_bill_that_was_taken_back_is_a_page_too() -> None:
    """Its total is nothing, and its history stays."""
    page = page_of(bill(item()), None)
    assert "0.00 EUR" in page
    assert "Credit note 1" in page


def test_what_can_still_change_says_so() -> None:
    """A month to date, and a month that is closed but not finalized."""
    assert "Month to date." in page_of(bill(item()), status="preliminary")
    assert "Draft." in page_of(bill(item()), status="completed")
    assert "Draft." not in page_of(bill(item()))


def test_times_are_those_of_the_installation() -> None:
    """Berlin's March begins an hour before that of UTC, and ends two."""
    berlin = {"from": "2026-02-28T23:00:00Z", "to": "2026-03-31T22:00:00Z"}
    page = page_of(bill(item(), billing_period=berlin), zone="Europe/Berlin")
    assert "Bill for March 2026" in page
    assert "1 Mar 2026 00:00 to 1 Apr 2026 00:00" in page


def test_thousands_are_set_apart() -> None:
    """By a narrow space, which no country takes for a decimal sign."""
    assert "1\u202f234\u202f567.80 EUR" in page_of(bill(item(total=Decimal("1234567.80"))))
