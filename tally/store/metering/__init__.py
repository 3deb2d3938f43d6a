"""SQL of the metering database: the raw copy, runs, prices, the ledger, bills, and the checks of invariants."""
