"""Counting GPUs without torch."""

from __future__ import annotations

import ctypes

# Library, initialisation and count of the CUDA driver and of HIP; both heed *_VISIBLE_DEVICES.
_DRIVERS = (
    ("libcuda.so.1", "cuInit", "cuDeviceGetCount"),
    ("nvcuda.dll", "cuInit", "cuDeviceGetCount"),
    ("libamdhip64.so", "hipInit", "hipGetDeviceCount"),
)


def visible_gpus() -> int:
    """How many GPUs this process can see; 0 where there is no driver."""
    for library, initialise, count_devices in _DRIVERS:
        try:
            driver = ctypes.CDLL(library)
        except OSError:
            continue
        count = ctypes.c_int(0)
        if getattr(driver, initialise)(0) == 0:
            getattr(driver, count_devices)(ctypes.byref(count))
            return count.value
    return 0
