"""The command line as a module: ``python -m tally.cli``."""

from tally.cli import main

main()
