"""Fails once on one process, while another one waits."""

import os
import sys
from pathlib import Path

from accelift import Accelerator

acc = Accelerator(cpu=True)
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
acc.wait_for_everyone()
if attempt < 1 and acc.process_index == 1:
    raise ValueError(attempt)
acc.wait_for_everyone()
Path(f"{sys.argv[1]}.{acc.process_index}").write_text(str(attempt))
