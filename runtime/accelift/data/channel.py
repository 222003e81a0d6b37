"""The way of batches from the main process to the others.

In each step the main process first tells everybody how much is coming; then it sends each process its own message.
Tensors travel as they are, whatever they are in; everything else is pickled, by this job for this job.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from accelift.collective import Collective
from accelift.generators import bytes_of
from accelift.state import PartialState

_ALIGNMENT = 16  # bytes, so that any element type may begin here
_STEP, _END, _FAILURE = range(3)


class Channel:
    """Sends batches from the main process to the others.

    Args:
        state: the processes.
        device: where the tensors of received batches are to be; ``None`` for the CPU.
    """

    def __init__(self, state: PartialState, device: torch.device | None) -> None:
        self._state = state
        self._device = device or torch.device("cpu")

    def pack(self, batches: Sequence[Any]) -> list[Tensor | None]:
        """A message for each process; ``None`` for those that get ``None``, and for the main process itself."""
        return [None if batch is None or rank == 0 else _pack(batch) for rank, batch in enumerate(batches)]

    def send(self, messages: Sequence[Tensor | None]) -> None:
        """Send each process its message.  For the main process."""
        self._send(_STEP, messages)

    def end(self) -> None:
        """Tell the others that there is nothing more.  For the main process."""
        self._send(_END, [])

    def fail(self, error: BaseException) -> None:
        """Tell the others that there will be nothing more, and why.  For the main process."""
        message = _pack(f"{type(error).__name__}: {error}")
        self._send(_FAILURE, [None, *[message] * (self._state.num_processes - 1)])

    def receive(self) -> Any:
        """What the main process sends next.

        Raises:
            StopIteration: at the end.
            RuntimeError: if the main process could not read it.
        """
        with self._waiting():
            header = torch.zeros(self._state.num_processes + 1, dtype=torch.int64, device=self._state.collective_device)
            dist.broadcast(header, 0)
            kind, *sizes = header.tolist()
            message = torch.empty(
                sizes[self._state.process_index], dtype=torch.uint8, device=self._state.collective_device
            )
            if message.numel():
                dist.recv(message, 0)
        if kind == _END:
            raise StopIteration
        batch = _unpack(message, self._device) if message.numel() else None
        if kind == _FAILURE:
            raise RuntimeError(f"the main process, which reads for all, could not read the next batch: {batch}")
        return batch

    def _send(self, kind: int, messages: Sequence[Tensor | None]) -> None:
        sizes = [0 if message is None else message.numel() for message in messages]
        header = torch.tensor([kind, *sizes, *[0] * (self._state.num_processes - len(sizes))])
        with self._waiting():
            dist.broadcast(header.to(self._state.collective_device), 0)
            for rank, message in enumerate(messages):
                if message is not None:
                    dist.send(message.to(self._state.collective_device), rank)

    def _waiting(self) -> AbstractContextManager[None]:
        return Collective("the loop over a prepared loader", self._state)


class _Packer(pickle.Pickler):
    """Leaves the content of plain tensors out, wherever in an object they are."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.tensors: list[Tensor] = []

    def persistent_id(self, item: Any) -> int | None:
        if type(item) is not Tensor or item.layout is not torch.strided or item.is_quantized or item.requires_grad:
            return None
        self.tensors.append(item.cpu().contiguous())
        return len(self.tensors) - 1


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, tensors: list[Tensor]) -> None:
        super().__init__(file)
        self._tensors = tensors

    def persistent_load(self, index: int) -> Tensor:
        return self._tensors[index]


def _pack(item: Any) -> Tensor:
    """An object as bytes: the size of the head, the head (the pickled rest), and the tensors."""
    file = io.BytesIO()
    packer = _Packer(file)
    packer.dump(item)
    forms = [(tensor.dtype, tuple(tensor.shape)) for tensor in packer.tensors]
    head = pickle.dumps((forms, file.getvalue()))
    parts = [len(head).to_bytes(_ALIGNMENT, "little"), head, *(bytes_of(tensor) for tensor in packer.tensors)]
    padded = (part + bytes(-len(part) % _ALIGNMENT) for part in parts)
    return torch.frombuffer(bytearray(b"".join(padded)), dtype=torch.uint8)


def _unpack(message: Tensor, device: torch.device) -> Any:
    size = int.from_bytes(bytes_of(message[:_ALIGNMENT].cpu()), "little")
    forms, rest = pickle.loads(bytes_of(message[_ALIGNMENT : _ALIGNMENT + size].cpu()))
    at = _aligned(_ALIGNMENT + size)
    tensors = []
    for dtype, shape in forms:
        # Copied, so that no tensor keeps the whole message alive, or is stored with it.
        tensor = torch.empty(shape, dtype=dtype, device=device)
        tensor.view(-1).view(torch.uint8).copy_(message[at : at + tensor.nbytes])
        tensors.append(tensor)
        at = _aligned(at + tensor.nbytes)
    return _Unpacker(io.BytesIO(rest), tensors).load()


def _aligned(position: int) -> int:
    return position + -position % _ALIGNMENT
