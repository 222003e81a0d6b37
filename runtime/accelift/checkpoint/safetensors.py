"""The safetensors layout, read and written without the package of that name.

A file is the length of a header (8 bytes, little-endian), the header (JSON: for each tensor its type, shape and
place), and the bytes of the tensors, one after the other.  See https://huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

_NAMES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}
_DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, ours)
    for name, ours in _NAMES.items()
    if hasattr(torch, ours)  # old torch lacks some
}
_TYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}

_LENGTH = struct.Struct("<Q")
_LONGEST_HEADER = 100_000_000  # bytes, as in the package
_METADATA = "__metadata__"
_FORMAT = {"format": "pt"}  # as the package has it


class NotSafetensors(ValueError):
    """A file is not in the safetensors layout, or not all of it is there."""


def fits(values: Iterable[Any]) -> bool:
    """Whether all of the values can be in a safetensors file: plain dense tensors of the types it knows."""
    return all(
        type(value) in (Tensor, torch.nn.Parameter) and value.layout == torch.strided and value.dtype in _TYPE_NAMES
        for value in values
    )


def distinct(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Each tensor once, and for every further name of a tensor the one that it is kept under.

    Two names are of the same tensor if it is the same memory, seen in the same way.
    """
    names: dict[Any, str] = {}
    kept: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    for name, tensor in tensors.items():
        place = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        first = names.setdefault(place, name) if tensor.numel() else name
        if first == name:
            kept[name] = tensor
        else:
            aliases[name] = first
    return kept, aliases


def write(tensors: Mapping[str, Tensor], file: IO[bytes]) -> None:
    """Write tensors, for which :func:`fits` is true; one that has several names is written once.

    Further names are kept in the header's metadata, as the package does.
    """
    kept, aliases = distinct(tensors)
    # By falling size of the elements, so that each tensor begins at a multiple of it.
    order = sorted(kept, key=lambda name: (-kept[name].element_size(), name))
    header: dict[str, Any] = {_METADATA: {**aliases, **_FORMAT}}
    end = 0
    for name in order:
        tensor = kept[name]
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _TYPE_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(_LENGTH.pack(len(text)) + text)
    for name in order:
        _write_bytes(kept[name], file)


def _write_bytes(tensor: Tensor, file: IO[bytes]) -> None:
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    size = tensor.numel() * tensor.element_size()
    if size:
        file.write(memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())))


def read(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The tensors of a file, under all of their names.

    They are the file's pages, which are read when they are used; what is written to them does not reach it.

    Raises:
        NotSafetensors: naming the file.
        OSError: if it cannot be read.
    """
    path = Path(path)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        header, start = _header(file, size, path)
        metadata = header.pop(_METADATA, {})
        places = [_place(name, entry, size - start, path) for name, entry in header.items()]
        ends = [0, *sorted(end for _, _, _, end in places)]
        if sorted(begin for _, _, begin, _ in places) != ends[:-1] or ends[-1] != size - start:
            raise NotSafetensors(f"{path} is damaged: its tensors do not fill it.")
        data = torch.empty(0, dtype=torch.uint8)
        if size > start:
            data = torch.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), dtype=torch.uint8)[start:]
    tensors = {
        name: _tensor(data[begin:end], dtype, header[name]["shape"])
        for name, (_, dtype, begin, end) in zip(header, places, strict=True)
    }
    for alias, name in metadata.items():
        if name in tensors and alias not in tensors and alias not in _FORMAT:
            tensors[alias] = tensors[name]
    return tensors


def _header(file: IO[bytes], size: int, path: Path) -> tuple[dict[str, Any], int]:
    """The header, and where the tensors begin."""
    prefix = file.read(_LENGTH.size)
    length = _LENGTH.unpack(prefix)[0] if len(prefix) == _LENGTH.size else size
    if length > min(size - _LENGTH.size, _LONGEST_HEADER):
        raise NotSafetensors(f"{path} is not a safetensors file, or only the beginning of one.")
    try:
        header = json.loads(file.read(length))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or not _are_words(header.get(_METADATA, {})):
        raise NotSafetensors(f"{path} is not a safetensors file: its header cannot be read.")
    return header, _LENGTH.size + length


def _are_words(metadata: Any) -> bool:
    return isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())


def _place(name: str, entry: Any, room: int, path: Path) -> tuple[str, torch.dtype, int, int]:
    """The name, type, begin and end of a tensor."""
    try:
        dtype, shape, (begin, end) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        numbers = [begin, end, *shape]
        if not all(isinstance(number, int) and number >= 0 for number in numbers) or end > room:
            raise ValueError
        elements = 1
        for length in shape:
            elements *= length
        if elements * torch.empty(0, dtype=dtype).element_size() != end - begin:
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise NotSafetensors(
            f"{path} is damaged, or of a kind that torch {torch.__version__} cannot hold: {name!r}."
        ) from None
    return name, dtype, begin, end


def _tensor(data: Tensor, dtype: torch.dtype, shape: list[int]) -> Tensor:
    if data.data_ptr() % torch.empty(0, dtype=dtype).element_size():
        data = data.clone()  # in a file that somebody else wrote
    return data.view(dtype).view(shape)
