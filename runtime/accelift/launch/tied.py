"""Run by its path, in place of a process of a job: sees to it that the process ends when the launcher does.

The launcher ends its processes itself, but not where it is killed at once.  Nothing else is done or imported here, as
every process of every job begins with it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(launcher: str, *command: str) -> None:
    """Become a command that is sent SIGTERM when the launcher, which has this number, is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(launcher):  # it was gone before
        sys.exit(128 + signal.SIGTERM)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"accelift launch: cannot run {command[0]}: {error.strerror}.")


if __name__ == "__main__":
    main(*sys.argv[1:])
