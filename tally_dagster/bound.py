"""A program of Dagster that ends with whoever started it: ``python -m tally_dagster.bound MODULE ARGUMENT ...``.

Who starts it holds the other end of its standard input and writes nothing. The kernel closes that end with its process,
also after kill -9: else the webserver would keep the port, and the daemon launch what is due beside the next one.

It ends at once, as if it were killed itself, and leaves what it has started: a code server of Dagster ends by itself
once nobody asks for it and the runs in it have ended.
"""

import os
import runpy
import sys
import threading


def main() -> None:
    """Run the module that the first argument names, with the others, until it or standard input ends."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def _end_with_input() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
