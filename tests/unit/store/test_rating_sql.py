"""The rating of the close, rendered outside dbt."""

from tally.store.metering.rating_sql import RatingTables, rating_sql


def test_it_reads_the_tables_that_it_is_given_and_no_others() -> None:
    sql = rating_sql(RatingTables("q.run", "q.usage", "q.versions", "q.prices", "q.modifiers", "q.tiers"))
    assert {name for name in sql.split() if "." in name and name.startswith(("q.", "ledger.", "metering."))} == {
        "q.run", "q.usage", "q.versions", "q.prices", "q.modifiers", "q.tiers",
    }
    assert "{{" not in sql
