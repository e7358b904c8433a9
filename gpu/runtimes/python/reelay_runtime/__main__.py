"""Runs a runtime's program: python3 -m reelay_runtime program.py [argument …]

It claims standard input and output before the program imports anything, so that a library
that prints when it is imported does no harm.

`python3 -m reelay_runtime test program.py`, or `reelay-runtime test program.py`, tries the program
instead: see trial.py.
"""

import runpy
import sys
from pathlib import Path

from .wire import claim_stdio

USAGE = "usage: reelay-runtime PROGRAM.py [ARGUMENT …]\n       reelay-runtime test [--help] PROGRAM.py"


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(USAGE)
    if sys.argv[1] == "test":
        from .trial import main as try_program  # noqa: PLC0415, a runtime does not need it

        sys.exit(try_program(sys.argv[2:]))
    claim_stdio()
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
