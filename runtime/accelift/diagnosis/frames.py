"""Where in the user's script something happens, read from Python's frames."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import lru_cache
from pathlib import Path
from types import FrameType, TracebackType


def place(frame: FrameType | None) -> str:
    """``train.py:57 in evaluate``: the innermost frame of the user's script, from ``frame`` outwards."""
    found = _of_user(frame)
    if found is None:
        return "an unknown place"
    name = found.f_code.co_name
    return _position(found.f_code.co_filename, found.f_lineno) + ("" if name == "<module>" else f" in {name}")


def call_site() -> str:
    """``train.py:41``: the line of the user's script that called us."""
    found = _of_user(sys._getframe(1))
    return "an unknown place" if found is None else _position(found.f_code.co_filename, found.f_lineno)


def stack_level() -> int:
    """The ``stacklevel`` with which our caller's warnings are about the user's line."""
    level, frame = 0, sys._getframe(1)
    found = _of_user(frame)
    while frame is not found and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level + 1


def place_of_error(traceback: TracebackType | None) -> str:
    """The line of the user's script where an exception came from."""
    found = None
    while traceback is not None:
        if found is None or _layer(traceback.tb_frame.f_code.co_filename) == _USER:
            found = _position(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found or "an unknown place"


_USER, _LIBRARY, _OURS = range(3)


def _of_user(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the script; else of a library that trains with us; else the first one."""
    of_library, innermost = None, frame
    while frame is not None:
        layer = _layer(frame.f_code.co_filename)
        if layer == _USER:
            return frame
        if layer == _LIBRARY and of_library is None:
            of_library = frame
        frame = frame.f_back
    return of_library or innermost


@lru_cache(maxsize=1024)
def _layer(filename: str) -> int:
    """Whose code a file is: the user's, a library's, or ours, torch's and Python's own."""
    if filename.startswith("<frozen"):
        return _OURS
    if filename.startswith("<"):
        return _USER  # typed in, or a cell of a notebook
    import torch

    path = Path(filename).resolve()
    packages = (Path(__file__).resolve().parents[1], Path(torch.__file__).resolve().parent)
    if any(path.is_relative_to(package) for package in packages):
        return _OURS
    if {"site-packages", "dist-packages"} & set(path.parts):
        return _LIBRARY
    known = sysconfig.get_paths()
    python = (Path(known[name]).resolve() for name in ("stdlib", "platstdlib"))
    return _OURS if any(path.is_relative_to(folder) for folder in python) else _USER


def _position(filename: str, line: int) -> str:
    try:
        inside = filename if filename.startswith("<") else os.path.relpath(filename)
    except (OSError, ValueError):  # the working directory is gone, or on another drive
        inside = filename
    return f"{filename if inside.startswith(os.pardir) else inside}:{line}"
