"""Runs scripts with one library, as one or several processes, and saves the parameters that each ends with.

Started by :mod:`benchmarks.parity.__main__`: `python -m benchmarks.parity.worker LIBRARY FOLDER NAME...`, where
LIBRARY is plain, accelift or accelerate.  Ends with the first script that fails, as other processes may wait in it.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist

from benchmarks.parity.library import Library, Parameters
from benchmarks.parity.scripts import SCRIPTS


def main() -> None:
    """Run the scripts; a file `NUMBER.RANK.pt` has the parameters, or the reason why there are none."""
    name, folder, numbers = sys.argv[1], Path(sys.argv[2]), map(int, sys.argv[3:])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rank = os.environ.get("RANK", "0")
    scripts = list(SCRIPTS.values())
    failed = False
    for number in numbers:
        result: Parameters | str
        try:
            if name == "plain":
                result = scripts[number].plain()
            else:
                library = Library(name, folder)
                result = scripts[number].managed(library)
                library.forget()
        except Exception as error:
            result, failed = f"{type(error).__name__}: {error}", True
        torch.save(result, folder / f"{number}.{rank}.pt")
        if failed:
            break
    if dist.is_initialized() and not failed:
        dist.barrier()
    os._exit(int(failed))  # taking gloo down now and then aborts the process, which is not what is compared


if __name__ == "__main__":
    main()
