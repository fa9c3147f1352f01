"""`python -m dragoman` is the command `dragoman`."""

import os
import sys

# -m puts the working directory before the standard library; an agent that writes there must not say what is imported.
try:
    unsafe = {"", os.getcwd()}
except OSError:  # the folder was removed
    unsafe = {""}
if sys.path[0] in unsafe:
    del sys.path[0]

from dragoman.cli.main import main

sys.exit(main())
