"""Which device a process takes.  There is none here but the CPU, so torch is made to see others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelift import Accelerator, DistributedType, PartialState
from accelift.launch import devices
from accelift.world import choose_device, describe


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    return chosen


def test_gpus(two_gpus: list[int]) -> None:
    assert choose_device(False, None) == torch.device("cuda", 1), "the one that torch is set to"
    assert two_gpus == []
    assert choose_device(False, 0) == torch.device("cuda", 0) and two_gpus == [0]
    with pytest.raises(ValueError, match="process 2 of this machine has no GPU: 2 visible"):
        choose_device(False, 2)
    assert choose_device(True, 2) == torch.device("cpu")


@pytest.mark.parametrize("name", ["ACCELERATE_USE_CPU", "ACCELIFT_USE_CPU"])
def test_cpu_by_environment(name: str, two_gpus: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert PartialState().device == torch.device("cuda", 1)
    PartialState._reset_state()
    monkeypatch.setenv(name, "true")
    assert Accelerator().device == torch.device("cpu")


def test_other_accelerators(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    xpu: Any = SimpleNamespace(
        is_available=lambda: True,
        current_accelerator=lambda: torch.device("xpu"),
        set_device_index=chosen.append,
    )
    monkeypatch.setattr(torch, "accelerator", xpu, raising=False)
    assert choose_device(False, None) == torch.device("xpu")
    assert choose_device(False, 1) == torch.device("xpu", 1) and chosen == [1]


def test_kinds_of_jobs() -> None:
    for device, kind in (
        ("cuda:0", DistributedType.MULTI_GPU),
        ("cpu", DistributedType.MULTI_CPU),
        ("xpu:0", DistributedType.MULTI_XPU),
    ):
        found = describe(torch.device(device), "some backend", 2, 0, 0)
        assert found["distributed_type"] is kind
        assert found["collective_device"] == torch.device(device)
    assert describe(torch.device("cuda:0"), "gloo", 2, 0, 0)["collective_device"].type == "cpu"
    assert describe(torch.device("cuda:0"), None, 1, 0, 0)["distributed_type"] == "NO"


def test_no_driver_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_DRIVERS", (("no-such-library.so", "init", "count"),))
    assert devices.visible_gpus() == 0
