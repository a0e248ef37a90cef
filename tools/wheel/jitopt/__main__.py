"""`python -m jitopt ARGUMENTS` is `jitopt ARGUMENTS`."""

import os
import subprocess
import sys

from . import binary


def main():
    """Replaces this process by the program, where the platform can."""
    arguments = [binary(), *sys.argv[1:]]
    if hasattr(os, "execv"):
        os.execv(arguments[0], arguments)
    sys.exit(subprocess.call(arguments))


main()
