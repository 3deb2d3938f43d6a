"""The JSON form of quotes: how one is asked for, and how it is answered, over HTTP and in files alike.

The shape of what is asked is tally/api/openapi.yaml's; whoever calls this has held it to that.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pricing.adjustments import Applied
from pricing.money import hours
from pricing.validity import Part
from tally.domain.errors import InvalidInput
from tally.domain.instants import format_instant, parse_instant
from tally.domain.principal import ProjectKey
from tally.domain.project import Project
from tally.services.quote_items import QuoteItem
from tally.services.quotes import Quote, QuotedItem
from tally.store.metering.quotes import QuotedRate


def read_items(body: Mapping[str, Any]) -> list[QuoteItem]:
    """Read the items of a request.

    Raises:
        InvalidInput: if an instant is none.
    """
    return [_item(item, place) for place, item in enumerate(body["items"])]


def read_project(body: Mapping[str, Any]) -> ProjectKey | None:
    """Read the project of a request."""
    project = body.get("project")
    return None if project is None else (project["cloud"], project["project_id"])


def write_quote(quote: Quote) -> dict[str, Any]:
    """Write a quote; numbers are decimals."""
    project = quote.project
    return {
        "period": str(quote.period),
        "price_version": quote.prices[0].version.version,
        "price_hash": quote.prices[0].version.content_hash,
        "price_changes": [_change(part) for part in quote.prices[1:]],
        "currency": quote.currency,
        "project": None if project is None else _project(project.project) | {"billed": _project(project.billed)},
        "items": [_quoted(item) for item in quote.items],
        "base": quote.adjusted.base,
        "adjustments": [_adjustment(line) for line in quote.adjusted.lines],
        "total": quote.adjusted.net,
        "kickback": quote.adjusted.kickback,
        "warnings": [] if project is None else list(project.warnings),
    }


def _change(part: Part) -> dict[str, Any]:
    version = part.version
    return {"version": version.version, "hash": version.content_hash, "since": format_instant(part.from_ts)}


def _project(project: Project) -> dict[str, Any]:
    return {"cloud": project.cloud, "project_id": project.external_id}


def _adjustment(line: Applied) -> dict[str, Any]:
    term, agreed = line.term, line.term.adjustment
    return {
        "type": str(agreed.type),
        "relation_type": term.relation_type,
        "relation_target": term.target_name,
        "relation_id": str(term.relation_id),
        "description": agreed.description,
        "scope": agreed.scope,
        "rate": agreed.rate,
        "base": line.base,
        "amount": line.amount,
    }


def _item(item: Mapping[str, Any], place: int) -> QuoteItem:
    return QuoteItem(
        item["platform"],
        item["resource_type"],
        item.get("size", {}),
        item.get("state"),
        item.get("hours"),
        _instant(item.get("from"), f"items[{place}].from"),
        _instant(item.get("to"), f"items[{place}].to"),
        item.get("usage", {}),
        item.get("resource"),
    )


def _instant(text: str | None, what: str) -> datetime | None:
    try:
        return None if text is None else parse_instant(text)
    except InvalidInput as error:
        raise InvalidInput(f"{what}: {error}") from None


def _quoted(item: QuotedItem) -> dict[str, Any]:
    described, usage = item.described, item.described.usage
    return {
        "platform": described.platform,
        "resource_type": described.resource_type,
        "resource": described.resource_id,
        "state": usage.state,
        "from": format_instant(usage.from_ts),
        "to": format_instant(usage.to_ts),
        "hours": hours(usage.length_us),
        "rates": [_rate(rate) for rate in item.rates],
        "findings": [{"kind": finding.kind, "subject": finding.subject} for finding in item.findings],
        "total": item.total,
    }


def _rate(rate: QuotedRate) -> dict[str, Any]:
    return {
        "dimension": rate.dimension,
        "quantity": rate.quantity,
        "price": rate.price,
        "state_modifier": rate.state_modifier,
        "type_modifier": rate.type_modifier,
        "amount": rate.amount,
        "amount_exact": rate.amount_exact,
        "basis": rate.basis,
        "from": rate.from_ts and format_instant(rate.from_ts),
        "to": rate.to_ts and format_instant(rate.to_ts),
    }
