"""Ports of this machine."""

from __future__ import annotations

import socket

DEFAULT_PORT = 29500  # torch's


def is_port_in_use(port: int | None = None) -> bool:
    """Whether somebody listens on a port of this machine; by default torch's, 29500."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(("localhost", DEFAULT_PORT if port is None else port)) == 0


def get_free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
