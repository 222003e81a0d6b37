"""Ports for the jobs of tests, several of which run beside each other."""

from __future__ import annotations

import itertools
import os
import socket

# Below those that systems give to whoever asks for any, perhaps before the job that one is for listens on it: Linux
# begins at 32768, gVisor at 16000.
_FIRST, _SHARES, _SHARE = 10_000, 120, 50
_asked = itertools.count()


def free_port() -> int:
    """A port that nobody listens on, and that no other process of the tests is given."""
    mine = _FIRST + os.getpid() % _SHARES * _SHARE
    while True:
        port = mine + next(_asked) % _SHARE
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
