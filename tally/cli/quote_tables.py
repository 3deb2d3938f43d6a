"""What the command line prints of quotes."""

from collections.abc import Iterator

from rich.console import Console

from pricing.money import hours
from tally.cli.grid import Row, RowFormat, add, json_text, show, show_rows, table
from tally.domain.instants import microseconds
from tally.services.quote_document import write_quote
from tally.services.quotes import Quote

_COLUMNS = (
    "resource", "platform", "resource_type", "state", "hours", "dimension", "quantity", "price", "state_modifier",
    "type_modifier", "amount", "amount_exact", "currency",
)  # fmt: skip


def quote(console: Console, made: Quote, form: RowFormat) -> None:
    """A quote: one line for each priced dimension, then what is found, then the total."""
    if form is RowFormat.JSON:
        console.out(json_text(write_quote(made)), highlight=False)
    elif form is RowFormat.CSV:
        show_rows(console, list(_rows(made)), _COLUMNS, form)
    else:
        _table(console, made)


def _table(console: Console, made: Quote) -> None:
    lines = table("Item", "State", ">Hours", "Dimension", ">Quantity", ">Price", ">Modifiers", ">Amount")
    for row in _rows(made):
        name = f"{row['platform']}.{row['resource_type']} {row['resource']}"
        modifiers = f"{row['state_modifier'].normalize():f} {row['type_modifier'].normalize():f}"
        numbers = f"{row['quantity']:f}", f"{row['price']:f}", modifiers, f"{row['amount']:f}"
        add(lines, name, row["state"], f"{row['hours']:f}", row["dimension"], *numbers)
    show(console, lines)
    for item in made.items:
        for finding in item.findings:
            where = f"{item.described.platform}.{item.described.resource_type} {item.described.resource_id}"
            console.print(f"finding {finding.kind}: {where}: {finding.subject}", soft_wrap=True)
    for warning in made.project.warnings if made.project else ():
        console.print(f"warning: {warning}", soft_wrap=True)
    _total(console, made)


def _total(console: Console, made: Quote) -> None:
    adjusted, currency = made.adjusted, made.currency
    if adjusted.lines:
        console.print(f"base {adjusted.base:f} {currency}")
    for line in adjusted.lines:
        term, agreed = line.term, line.term.adjustment
        what = f"{agreed.type} {agreed.rate * 100:f} % of {agreed.scope}, {line.base:f}: {line.amount:+f} {currency}"
        console.print(f"{what} ({term.relation_type} {term.target_name})", soft_wrap=True)
    versions = ", ".join(part.version.version for part in made.prices)
    prices = f"{made.period}, price version{'s' if len(made.prices) > 1 else ''} {versions}"
    billed = f", on the bill of {made.project.billed.address}" if made.project else ""
    console.print(f"total {adjusted.net:f} {currency} ({prices}{billed})", soft_wrap=True)


def _rows(made: Quote) -> Iterator[Row]:
    for item in made.items:
        described, usage = item.described, item.described.usage
        for rate in item.rates:
            yield {
                "resource": described.resource_id,
                "platform": described.platform,
                "resource_type": described.resource_type,
                "state": usage.state,
                "hours": hours(microseconds((rate.to_ts or usage.to_ts) - (rate.from_ts or usage.from_ts))),
                "dimension": rate.dimension,
                "quantity": rate.quantity,
                "price": rate.price,
                "state_modifier": rate.state_modifier,
                "type_modifier": rate.type_modifier,
                "amount": rate.amount,
                "amount_exact": rate.amount_exact,
                "currency": rate.currency,
            }
