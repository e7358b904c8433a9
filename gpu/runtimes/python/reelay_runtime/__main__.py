"""Runs a runtime's program: python3 -m reelay_runtime program.py [argument …]

It claims standard input and output before the program imports anything, so that a library
that prints when it is imported does no harm.
"""

import runpy
import sys
from pathlib import Path

from .wire import claim_stdio

if len(sys.argv) < 2:
    sys.exit("usage: python3 -m reelay_runtime PROGRAM.py [ARGUMENT …]")
claim_stdio()
del sys.argv[0]
sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
runpy.run_path(sys.argv[0], run_name="__main__")
