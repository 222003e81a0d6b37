"""What is not offered, or makes no sense, is refused in one clear sentence."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
import torch
from accelift import (
    Accelerator,
    AutocastKwargs,
    DataLoaderConfiguration,
    DistributedDataParallelKwargs,
    DistributedType,
    GradientAccumulationPlugin,
    GradScalerKwargs,
    InitProcessGroupKwargs,
    PartialState,
    set_seed,
)
from accelift.arguments import ARGUMENTS_NOT_OFFERED, VERBS_NOT_OFFERED
from torch import nn
from torch.utils.data import DataLoader

REFUSED: list[tuple[type[Exception], str, Any]] = [
    (ValueError, "mixed_precision='fp8'", lambda: Accelerator(mixed_precision="fp8")),
    (ValueError, "gradient_accumulation_steps or", lambda: Accelerator(
        gradient_accumulation_steps=2,
        gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=2))),
    (ValueError, "num_steps=0", lambda: Accelerator(gradient_accumulation_steps=0)),
    (ValueError, "two AutocastKwargs", lambda: Accelerator(
        kwargs_handlers=[AutocastKwargs(), AutocastKwargs()])),
    (TypeError, "not a str", lambda: Accelerator(kwargs_handlers=["x"])),  # type: ignore[list-item]
    (ValueError, "comm_hook", lambda: DistributedDataParallelKwargs(comm_hook="fp8")),
    (ValueError, "nothing to prepare", lambda: Accelerator().prepare()),
    (ValueError, "same model twice", lambda: Accelerator().prepare(*[nn.Linear(1, 1)] * 2)),
    (ValueError, "device_placement for 1", lambda: Accelerator().prepare(
        1, 2, device_placement=[True])),
    (TypeError, "prepare_model takes a Module", lambda: Accelerator().prepare_model(1)),
    (TypeError, "takes a DataLoader, not a list", lambda: Accelerator().prepare_data_loader([])),
    (TypeError, "takes a Optimizer", lambda: Accelerator().prepare_optimizer(None)),
    (TypeError, "takes a LRScheduler", lambda: Accelerator().prepare_scheduler(None)),
    (TypeError, "accumulate takes a Module", lambda: Accelerator().accumulate([nn.Linear(1, 1)])),
    (TypeError, "unwrap_model takes a Module", lambda: Accelerator().unwrap_model(1)),
    (TypeError, "not a float", lambda: Accelerator().backward(1.0)),
    (ValueError, "no reduction 'none'", lambda: Accelerator().backward(
        torch.ones(1), reduction="none")),
    (ValueError, "no reduction 'median'", lambda: Accelerator().reduce(torch.ones(1), "median")),
    (ValueError, "from_process=1", lambda: Accelerator().broadcast(torch.ones(1), 1)),
    (ValueError, "on_process(process_index=...)", lambda: Accelerator().on_process(print)),
    (TypeError, "a seed is a whole number", lambda: set_seed("1")),  # type: ignore[arg-type]
    (ValueError, "safe_serialization=True", lambda: Accelerator().save([], "x", True)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "part", "act"), REFUSED, ids=[part for _, part, _ in REFUSED])
def test_refused(kind: type[Exception], part: str, act: Any) -> None:
    with pytest.raises(kind, match=re.escape(part)) as error:
        act()
    message = str(error.value)
    assert message.endswith(".") and "\n" not in message


@pytest.mark.parametrize("name", ARGUMENTS_NOT_OFFERED)
def test_arguments_that_are_not_offered(name: str) -> None:
    arguments: dict[str, Any] = {name: "anything"}
    with pytest.raises(ValueError, match=rf"Accelerator\({name}=\.\.\.\) is not offered: .*\."):
        Accelerator(**arguments)


@pytest.mark.parametrize("name", VERBS_NOT_OFFERED)
def test_verbs_that_are_not_offered(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"accelerator\.{name} is not offered: .*\."):
        getattr(Accelerator(), name)
    assert not hasattr(Accelerator(), name)


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'prepair'"):
        _ = Accelerator().prepair  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("ACCELERATE_USE_CPU", "perhaps", "neither true nor false"),
        ("ACCELERATE_MIXED_PRECISION", "fp4", "mixed_precision='fp4' is not offered"),
        ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "many", "not a whole number of at least 1"),
        ("ACCELIFT_CHECK_DIVERGENCE", "often", "ACCELIFT_CHECK_DIVERGENCE='often' is not a whole number of at least 1"),
        ("WORLD_SIZE", "2", "RANK is not set"),
    ],
)
def test_environment(name: str, value: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=part):
        Accelerator()


def test_local_rank_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(ValueError, match="LOCAL_RANK is not set"):
        PartialState()


def test_cpu_that_comes_too_late() -> None:
    PartialState()
    PartialState._shared["device"] = torch.device("cuda", 0)  # as if there had been one
    assert PartialState().device.type == "cuda"
    with pytest.raises(ValueError, match="cpu=True comes too late"):
        Accelerator(cpu=True)


def test_arguments_by_position_are_those_of_hugging_face() -> None:
    other = pytest.importorskip("accelerate").Accelerator
    import inspect

    theirs = list(inspect.signature(other.__init__).parameters)
    ours = list(inspect.signature(Accelerator.__init__).parameters)
    assert ours[: len(theirs)] == theirs


def test_handlers_pass_on_what_differs_from_the_defaults() -> None:
    assert InitProcessGroupKwargs(timeout=timedelta(seconds=3)).to_kwargs() == {"timeout": timedelta(seconds=3)}
    assert GradScalerKwargs().to_kwargs() == {}
    assert DistributedDataParallelKwargs(static_graph=True).to_kwargs() == {"static_graph": True}


def test_split_batches_in_either_place() -> None:
    assert Accelerator(split_batches=True).split_batches
    config = DataLoaderConfiguration(non_blocking=True)
    acc = Accelerator(split_batches=True, dataloader_config=config)
    assert acc.split_batches and acc.dataloader_config.non_blocking
    assert not config.split_batches, "the caller's configuration was changed"


def test_types_compare_with_words() -> None:
    assert Accelerator().distributed_type == DistributedType.NO == "NO"
    assert str(DistributedType.MULTI_GPU) == "MULTI_GPU"


def test_device_placement() -> None:
    class Batch:
        """Says where it was sent."""

        device = "here"

        def to(self, device: torch.device) -> Batch:
            self.device = device.type
            return self

    from accelift.utils import send_to_device

    meta = torch.device("meta")
    batch = {"x": [torch.ones(1)], "y": Batch(), "name": "text", "pair": (torch.ones(2), 3)}
    sent = send_to_device(batch, meta)
    assert sent["x"][0].device == sent["pair"][0].device == meta
    assert sent["y"].device == "meta" and sent["name"] == "text" and sent["pair"][1] == 3
    assert batch["x"][0].device.type == "cpu"

    PartialState()
    PartialState._shared["device"] = meta
    loaders = [DataLoader(torch.arange(4.0), batch_size=2) for _ in range(3)]
    acc = Accelerator()
    placed, left = acc.prepare(*loaders[:2], device_placement=[None, False])
    assert [b.device.type for b in placed] == ["meta"] * 2
    assert [b.device.type for b in left] == ["cpu"] * 2
    other = Accelerator(device_placement=False).prepare(loaders[2])
    assert [b.device.type for b in other] == ["cpu"] * 2
