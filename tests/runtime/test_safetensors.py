"""The layout of safetensors is that of the package, and files that are damaged are told from it."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from accelift.checkpoint import safetensors
from accelift.checkpoint.safetensors import NotSafetensors

DTYPES = list(safetensors._DTYPES.values())


def tensors() -> dict[str, torch.Tensor]:
    """Tensors of all types, of odd sizes and strides."""
    torch.manual_seed(0)
    found = {str(dtype): (torch.randn(3, 5) * 9).abs().to(dtype) for dtype in DTYPES}
    found |= {"scalar": torch.tensor(2.5), "empty": torch.empty(0, 4), "turned": torch.randn(4, 3).t()}
    found["conjugate"] = torch.randn(2, dtype=torch.complex64).conj()
    found["strided"] = torch.arange(12)[::3]
    return found


def write(path: Path, content: dict[str, torch.Tensor]) -> None:
    with path.open("wb") as file:
        safetensors.write(content, file)


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape, name
        ours, theirs = (one.resolve_conj().contiguous().flatten().view(torch.uint8) for one in (found[name], tensor))
        assert torch.equal(ours, theirs), name


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write(tmp_path / "x", tensors())
    assert_same(safetensors.read(tmp_path / "x"), tensors())
    write(tmp_path / "none", {})
    assert safetensors.read(tmp_path / "none") == {}


def test_the_package_reads_and_writes_the_same(tmp_path: Path) -> None:
    package = pytest.importorskip("safetensors.torch")
    write(tmp_path / "ours", tensors())
    assert_same(package.load_file(tmp_path / "ours"), tensors())
    expected = {name: tensor.resolve_conj().contiguous() for name, tensor in tensors().items()}
    package.save_file(expected, tmp_path / "theirs", metadata={"format": "pt"})
    assert_same(safetensors.read(tmp_path / "theirs"), expected)


def test_what_has_several_names_is_there_once(tmp_path: Path) -> None:
    package = pytest.importorskip("safetensors.torch")
    weight = torch.randn(10_000)
    both = {"a": weight, "b": weight, "part": weight[:5000], "other": weight.clone()}
    write(tmp_path / "x", both)
    assert_same(safetensors.read(tmp_path / "x"), both)
    assert set(package.load_file(tmp_path / "x")) == {"a", "part", "other"}
    assert (tmp_path / "x").stat().st_size < 4 * 26_000


def test_pages_of_a_file_can_be_written_to(tmp_path: Path) -> None:
    write(tmp_path / "x", {"a": torch.zeros(3)})
    before = (tmp_path / "x").read_bytes()
    safetensors.read(tmp_path / "x")["a"].fill_(1)
    assert (tmp_path / "x").read_bytes() == before


@pytest.mark.parametrize("at", [0, 7, 8, 9, 100, -1])
def test_the_beginning_of_a_file_is_refused(at: int, tmp_path: Path) -> None:
    write(tmp_path / "x", tensors())
    (tmp_path / "x").write_bytes((tmp_path / "x").read_bytes()[:at])
    with pytest.raises(NotSafetensors, match=str(tmp_path / "x")):
        safetensors.read(tmp_path / "x")


def with_header(change: Callable[[Any], Any]) -> bytes:
    header = change({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"\0" * 8


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
DAMAGED: dict[str, Callable[[Any], Any]] = {
    "no json": lambda header: b"{'a': 1}",
    "deep json": lambda header: b"[" * 100_000,
    "no dict": lambda header: [1],
    "no entry": lambda header: {"a": 3},
    "no offsets": lambda header: {"a": {"dtype": "F32", "shape": [2]}},
    "other type": lambda header: {"a": {**ENTRY, "dtype": "F4"}},
    "other shape": lambda header: {"a": {**ENTRY, "shape": [3]}},
    "negative": lambda header: {"a": {**ENTRY, "shape": [-1, -2]}},
    "huge": lambda header: {"a": {**ENTRY, "shape": [2**40], "data_offsets": [0, 2**42]}},
    "beyond": lambda header: {"a": {**ENTRY, "data_offsets": [4, 12]}},
    "overlap": lambda header: {"a": ENTRY, "b": ENTRY},
    "hole": lambda header: {"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}},
    "metadata": lambda header: {**header, "__metadata__": {"x": 3}},
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_headers_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(with_header(lambda header: header))
    assert safetensors.read(path)["a"].tolist() == [0, 0]
    path.write_bytes(with_header(DAMAGED[name]))
    with pytest.raises(NotSafetensors, match=f"{path} is .*[.]$") as error:
        safetensors.read(path)
    assert "\n" not in str(error.value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(3)}, tmp_path / "x")
    with pytest.raises(NotSafetensors, match="is not a safetensors file"):
        safetensors.read(tmp_path / "x")


def test_tensors_that_do_not_begin_at_their_size(tmp_path: Path) -> None:
    entries = {
        "odd": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
        "a": {"dtype": "F32", "shape": [1], "data_offsets": [3, 7]},
    }
    text = json.dumps(entries).encode()
    (tmp_path / "x").write_bytes(struct.pack("<Q", len(text)) + text + b"\1\2\3" + struct.pack("<f", 2.5))
    assert safetensors.read(tmp_path / "x")["a"].tolist() == [2.5]


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        (torch.zeros(2), True),
        (torch.nn.Parameter(torch.zeros(2)), True),
        (torch.zeros(2, dtype=torch.complex128), False),
        (torch.eye(2).to_sparse(), False),
        (3, False),
        (None, False),
    ],
)
def test_what_fits(value: Any, fits: bool) -> None:
    assert safetensors.fits([torch.zeros(1), value]) == fits
