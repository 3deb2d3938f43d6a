"""The command line: reads arguments, calls services, prints. No rule of metering or billing stands here.

Exit codes: 0 done, 1 refused or failed (or events were rejected), 2 wrong usage, 130 interrupted. An error is one line
on stderr. Tables and documents go to stdout, progress to stderr.
"""

from tally.cli.app import app, main

__all__ = ["app", "main"]
