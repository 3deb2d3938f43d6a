"""Corrections: what a materialization of a finalized period is (rule 20).

A correction derives the period again from all that has arrived, compares with the effective records, and writes
reversals and new records in a run of its own. Its life is that of every run (runs.py), but it is finalized as it is
completed. The charge stays in its period.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tally.domain.errors import InvalidInput
from tally.domain.run import Run


@dataclass(frozen=True, slots=True)
class CorrectionRequest:
    """What a correction is asked for beyond what has arrived late; each needs a reason."""

    price_version: str | None = None  # instead of the one that the period was finalized with
    everything: bool = False  # derive all resources again, such as after a mended metering rule
    counters: bool = False  # fetch sampled counters again, instead of taking those that the finalized run has kept
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.price_version or self.everything or self.counters) and not (self.reason or "").strip():
            raise InvalidInput(
                "another price version, everything or counters again: each needs a reason, which is kept with the run"
            )


NOTHING_SPECIAL = CorrectionRequest()


def about_correction(finalized: Sequence[Run], inputs: Mapping[str, Any], request: CorrectionRequest) -> dict[str, Any]:
    """What the run of a correction says beyond a regular one, by the finalized runs of its period, the latest last.

    Resources without later events are as they were if all that judges them is: the registry, the code, the prices.
    """
    latest, regular = finalized[-1], finalized[0]
    other_prices = request.price_version is not None and list(latest.price_versions) != [request.price_version]
    read = latest.registry_version, latest.code_version
    unchanged = not other_prices and read == (inputs["registry_version"], inputs["code_version"])
    return {
        "kind": "correction",
        "corrects_run_id": regular.id,
        "since_load_id": latest.load_id,
        "scope": "changed" if unchanged and not request.everything else "all",
        "counter_fetch_id": latest.counter_fetch_id,
        "reason": request.reason,
        "preliminary": False,
    }
