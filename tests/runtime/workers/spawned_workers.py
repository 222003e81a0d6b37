"""Module-level code that the spawned workers of a DataLoader run again."""

import multiprocessing
import sys

import torch
from accelift import Accelerator, PartialState
from torch.utils.data import DataLoader, Dataset

acc = Accelerator(cpu=True, split_batches=True)
AT_IMPORT = (acc.state.backend, acc.num_processes, acc.process_index)
with acc.main_process_first():
    pass


class Where(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        again = PartialState()
        inside = multiprocessing.parent_process() is not None and torch.utils.data.get_worker_info()
        known = (None, 2, acc.process_index) == AT_IMPORT and again.num_processes == 2
        return torch.tensor([index, int(bool(inside) and known and not again.use_distributed)])


def main() -> None:
    assert AT_IMPORT[0] == "gloo"
    for method in ("spawn", "forkserver"):
        loader = acc.prepare(
            DataLoader(
                Where(),
                4,
                num_workers=1,
                multiprocessing_context=multiprocessing.get_context(method),
            )
        )
        for batch in loader:
            whole = acc.gather_for_metrics(batch)
            assert whole[:, 1].all(), whole
    acc.print("fine", file=sys.stdout, flush=True)


if __name__ == "__main__":
    main()
