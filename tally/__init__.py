"""Tally: metering and rating of cloud resources from their lifecycle events.

The product, free of Dagster and Great Expectations. Imports run downhill only:
``cli -> api -> services -> (pricing | store | providers) -> settings -> domain``.
"""

__version__ = "0.1.0"
