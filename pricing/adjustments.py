"""Adjustments of a bill: surcharges, discounts and kickbacks that relations agree on, in exact arithmetic (rule 29).

A relation agrees on adjustments under ``pricing_adjustments`` of its metadata; here they are read, and applied to the
costs of a bill. Which relations apply to a project is decided by tally.domain.groups; where lines stand in the document
is bill.py's.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation, localcontext
from enum import StrEnum
from typing import Any
from uuid import UUID

from pricing.money import checked, round_amount, total
from tally.domain.errors import InvalidInput
from tally.domain.graph import Purpose, check_relation_type

METADATA_KEY = "pricing_adjustments"
EVERYTHING = "all"
MAX_PER_RELATION = 20
MAX_RATE_DECIMALS = 10
MAX_DESCRIPTION = 500

# Decimals of any length are added and multiplied without rounding: it raises where it would have to.
_EXACT = Context(prec=100_000, traps=[Inexact, InvalidOperation])
_ZERO = Decimal("0.00")
_SCOPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}\.[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)
_KEYS = ("type", "description", "rate", "scope")


class AdjustmentType(StrEnum):
    """What an adjustment does, in the order in which the types are applied."""

    SURCHARGE = "surcharge"                 # of the exact base cost, added
    DISCOUNT = "discount"                   # of the exact running cost, taken off
    PROJECT_DISCOUNT = "project_discount"   # likewise, after all discounts
    KICKBACK = "kickback"                   # of the exact net cost, owed to the target of the relation


_TAKEN_OFF = (AdjustmentType.DISCOUNT, AdjustmentType.PROJECT_DISCOUNT)
_ORDER = {kind: place for place, kind in enumerate(AdjustmentType)}


@dataclass(frozen=True, slots=True)
class Adjustment:
    """One adjustment as a relation agrees on it: 15 % of everything is a rate of 0.15 with the scope 'all'."""

    type: AdjustmentType
    rate: Decimal            # 0 to 1
    scope: str = EVERYTHING  # or platform.resource_type
    description: str = ""


@dataclass(frozen=True, slots=True)
class Term:
    """An adjustment that applies to a bill, with the relation that agrees on it: its ends as (cloud, project)."""

    relation_id: UUID
    place: int               # in the list of the relation, from 0
    relation_type: str
    source: tuple[str, str]  # the billed project, or a group that it belongs to
    target: tuple[str, str]  # who is paid a kickback
    target_name: str
    adjustment: Adjustment


@dataclass(frozen=True, slots=True)
class Applied:
    """What a term comes to: ``amount`` is added to the bill, but for a kickback, which is owed beside it."""

    term: Term
    base: Decimal            # what the rate is of, rounded to 2 decimals for reading
    amount: Decimal          # rounded once from the exact value; of a discount negative


@dataclass(frozen=True, slots=True)
class Adjusted:
    """A bill after its adjustments, in the order in which they were applied."""

    lines: tuple[Applied, ...]
    base: Decimal
    net: Decimal             # the base and the emitted surcharges and discounts: what the customer pays
    kickback: Decimal        # what is owed to partners; no part of the net


def apply(costs: Mapping[str, Decimal], terms: Iterable[Term]) -> Adjusted:
    """Apply terms to the costs of a bill.

    Args:
        costs: sums of line items by platform.resource_type, of 2 decimals, related costs included.
        terms: in whatever order; surcharges come first, then discounts, project discounts and kickbacks, within a type
            by relation id, within a relation as it lists them.
    """
    base = {kind: checked(cost) for kind, cost in costs.items()}
    running = dict(base)
    lines = []
    with localcontext(_EXACT):
        for term in sorted(terms, key=_application_order):
            kind_of, scope = term.adjustment.type, term.adjustment.scope
            of = base if kind_of is AdjustmentType.SURCHARGE else running
            kinds = [kind for kind in of if scope in (EVERYTHING, kind)]
            share = -term.adjustment.rate if kind_of in _TAKEN_OFF else term.adjustment.rate
            amount_of = sum((of[kind] for kind in kinds), _ZERO)
            lines.append(Applied(term, _rounded(amount_of), _rounded(share * amount_of)))
            if kind_of is not AdjustmentType.KICKBACK:
                for kind in kinds:
                    running[kind] += share * of[kind]
    whole = total(costs.values())
    owed = [line.amount for line in lines if line.term.adjustment.type is AdjustmentType.KICKBACK]
    paid = [line.amount for line in lines if line.term.adjustment.type is not AdjustmentType.KICKBACK]
    return Adjusted(tuple(lines), whole, total([whole, *paid]), total(owed))


def read_adjustments(relation_type: str, metadata: Mapping[str, Any]) -> tuple[Adjustment, ...]:
    """Read what a relation agrees on; nothing if its metadata do not speak of adjustments.

    Raises:
        InvalidInput: naming all that is wrong with them, or that relations of this type adjust nothing.
    """
    if METADATA_KEY not in metadata:
        return ()
    entries = metadata[METADATA_KEY]
    if check_relation_type(relation_type) is not Purpose.ADJUST and entries != []:
        raise InvalidInput(f"{METADATA_KEY}: a relation {relation_type} adjusts no prices; managed_by and member_of do")
    if not isinstance(entries, Sequence) or isinstance(entries, str) or len(entries) > MAX_PER_RELATION:
        raise InvalidInput(f"{METADATA_KEY} is not a list of at most {MAX_PER_RELATION} adjustments")
    faults = [f"{METADATA_KEY}[{place}]: {fault}" for place, entry in enumerate(entries) for fault in _faults(entry)]
    if faults:
        raise InvalidInput("; ".join(faults))
    return tuple(
        Adjustment(
            AdjustmentType(entry["type"]),
            checked(entry["rate"]),
            entry.get("scope", EVERYTHING),
            entry.get("description", ""),
        )
        for entry in entries
    )


def _faults(entry: Any) -> list[str]:
    if not isinstance(entry, Mapping):
        return ["it is not an object with type, rate and scope"]
    faults = [f"{key!r} is not a key of it; there are {', '.join(_KEYS)}" for key in entry if key not in _KEYS]
    if entry.get("type") not in list(AdjustmentType):
        faults.append(f"type {str(entry.get('type'))[:60]!r} is none of {', '.join(AdjustmentType)}")
    faults += _faults_of_rate(entry.get("rate"))
    scope, description = entry.get("scope", EVERYTHING), entry.get("description", "")
    if scope != EVERYTHING and not (isinstance(scope, str) and _SCOPE.fullmatch(scope)):
        faults.append(f"scope {str(scope)[:130]!r} is neither all nor platform.resource_type, as openstack.instance")
    if not isinstance(description, str) or len(description) > MAX_DESCRIPTION:
        faults.append(f"description is not a text of at most {MAX_DESCRIPTION} characters")
    return faults


def _faults_of_rate(rate: Any) -> list[str]:
    if not isinstance(rate, int | Decimal) or isinstance(rate, bool):
        return [f"rate {str(rate)[:60]!r} is not a number; 15 % is 0.15"]
    number = Decimal(rate)
    if not 0 <= number <= 1:
        return [f"rate {str(rate)[:60]} is not between 0 and 1; 15 % is 0.15"]
    if number != round(number, MAX_RATE_DECIMALS):
        return [f"rate {str(rate)[:60]} has more than {MAX_RATE_DECIMALS} decimals"]
    return []


def _application_order(term: Term) -> tuple[int, UUID, int]:
    return (_ORDER[term.adjustment.type], term.relation_id, term.place)


def _rounded(value: Decimal) -> Decimal:
    """Round half up, away from zero: the only rounding that an amount undergoes."""
    return round_amount(*value.as_integer_ratio())
