"""The helpers that scripts import: containers, versions, the environment, memory, logging, profiling."""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import types
from collections import OrderedDict, UserDict, namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import accelift
import pytest
import torch
from accelift import Accelerator, PartialState, ProfileKwargs, find_executable_batch_size, utils
from accelift.config import LaunchConfig
from accelift.local_sgd import LocalSGD
from accelift.logging import get_logger
from accelift.notoffered import NOT_OFFERED
from accelift.state import AcceleratorState, is_initialized
from accelift.utils import TensorInformation
from torch import nn

Pair = namedtuple("Pair", ["a", "b"])


# Names


def test_every_name_of_accelerate_is_there_or_refused() -> None:
    theirs = pytest.importorskip("accelerate")
    inside = {"TORCH_DISTRIBUTED_OPERATION_TYPES", "TORCH_LAUNCH_PARAMS", "is_rich_available"}
    for module, ours in ((theirs, accelift), (theirs.utils, utils)):
        for name in vars(module):
            named = not name.startswith("_") and not isinstance(getattr(module, name), types.ModuleType)
            if named and name not in inside and not name.endswith("PYTORCH_VERSION"):
                assert hasattr(ours, name), f"{ours.__name__}.{name}"


def test_no_name_is_both_there_and_refused() -> None:
    assert len(utils.__all__) > 120 and not set(utils.__all__) & NOT_OFFERED.keys()
    assert not set(accelift.__all__) & NOT_OFFERED.keys()


@pytest.mark.parametrize("name", NOT_OFFERED)
def test_names_that_are_not_offered(name: str) -> None:
    refused = getattr(utils, name)
    assert refused is getattr(accelift, name) and not isinstance(1, refused)
    with pytest.raises(NotImplementedError, match=rf"^{name} is not offered: [^\n]*\.$"):
        refused(1, x=2)
    with pytest.raises(AttributeError, match=rf"^{name} is not offered: "):
        _ = refused.attribute

    class Derived(refused):  # type: ignore[misc]
        pass

    with pytest.raises(NotImplementedError, match=f"^{name} is not offered"):
        Derived()


@pytest.mark.parametrize("module", ["big_modeling", "inference", "utils.deepspeed", "utils.modeling"])
def test_modules_that_are_not_offered(module: str) -> None:
    home = importlib.import_module(f"accelift.{module}")
    assert home.DummyOptim is accelift.DummyOptim
    with pytest.raises(AttributeError, match=f"module 'accelift.{module}' has no attribute 'nothing'"):
        _ = home.nothing


def test_unknown_names_of_utils() -> None:
    with pytest.raises(AttributeError, match=r"module 'accelift\.utils' has no attribute 'nothing'"):
        _ = utils.nothing


def test_star_import() -> None:
    found: dict[str, Any] = {}
    exec("from accelift.utils import *", found)
    assert found["set_seed"] is accelift.set_seed and found["gather"] is utils.gather


# Containers


def test_recursively_apply() -> None:
    data = {"x": [torch.ones(2)], "p": Pair(torch.zeros(1), "text"), "n": None}
    found = utils.recursively_apply(lambda tensor, by, plus: tensor * by + plus, data, 3, plus=1)
    assert found["x"][0].tolist() == [4, 4] and found["p"] == Pair(torch.ones(1), "text")
    assert utils.recursively_apply(len, ["ab", 3], test_type=lambda item: isinstance(item, str)) == [2, 3]
    with pytest.raises(TypeError, match="was given a str"):
        utils.recursively_apply(torch.neg, data, error_on_other_type=True)


def test_honor_type() -> None:
    assert utils.honor_type(Pair(1, 2), iter([3, 4])) == Pair(3, 4)
    assert utils.honor_type([0], (x for x in "ab")) == ["a", "b"] and utils.honor_type((0,), [1]) == (1,)
    assert utils.is_namedtuple(Pair(1, 2)) and not utils.is_namedtuple((1, 2))


def test_concatenate_and_slice() -> None:
    batches = [OrderedDict(x=torch.full((2, 1), float(i)), y=(torch.arange(2) + i, [torch.ones(2)])) for i in range(3)]
    whole = utils.concatenate(batches)
    assert type(whole) is OrderedDict and whole["x"].flatten().tolist() == [0, 0, 1, 1, 2, 2]
    assert whole["y"][0].tolist() == [0, 1, 1, 2, 2, 3] and isinstance(whole["y"], tuple)
    part = utils.slice_tensors(whole, slice(1, 3))
    assert part["x"].flatten().tolist() == [0, 1] and part["y"][1][0].shape == (2,)
    assert utils.concatenate([torch.ones(1, 2), torch.ones(1, 3)], dim=1).shape == (1, 5)
    assert utils.concatenate(["only"]) == "only"
    with pytest.raises(TypeError, match="not items of type str"):
        utils.concatenate(["a", "b"])


def test_batch_sizes() -> None:
    assert utils.find_batch_size({"id": "text", "s": torch.tensor(1), "x": [torch.ones(3, 2)]}) == 3
    for nothing in ({}, "text", [torch.tensor(1)]):
        assert utils.ignorant_find_batch_size(nothing) is None
        with pytest.raises(ValueError, match="no tensor with rows"):
            utils.find_batch_size(nothing)


def test_descriptions_of_tensors() -> None:
    data = {"x": torch.ones(2, 3), "y": [torch.tensor(True)]}
    described = utils.get_data_structure(data)
    assert described == {
        "x": TensorInformation(torch.Size([2, 3]), torch.float32),
        "y": [TensorInformation(torch.Size([]), torch.bool)],
    }
    made = utils.initialize_tensors(described)
    assert made["x"].shape == (2, 3) and made["y"][0].dtype == torch.bool
    assert utils.listify({"x": torch.tensor([1.5, 2], dtype=torch.bfloat16)}) == {"x": [1.5, 2.0]}
    assert utils.find_device(["text", torch.ones(1, device="meta")]) == torch.device("meta")
    assert utils.find_device("text") is None


def test_padding_of_inputs() -> None:
    rows = torch.arange(5).view(5, 1)
    for processes, length in ((1, 5), (2, 6), (4, 8), (5, 5), (7, 7)):
        padded = utils.pad_input_tensors({"x": rows}, 5, processes)["x"]
        assert padded.flatten().tolist() == [*range(5), *[4] * (length - 5)]
    assert utils.pad_input_tensors(rows.T, 5, 3, dim=1).shape == (1, 6)


def test_keys_that_stay_on_their_device() -> None:
    batch = UserDict(x=torch.ones(1), y={"kept": torch.ones(1), "z": torch.ones(1)})
    sent = utils.send_to_device(batch, "meta", skip_keys="kept")
    assert type(sent) is UserDict and sent["x"].device.type == sent["y"]["z"].device.type == "meta"
    assert sent["y"]["kept"] is batch["y"]["kept"] and batch["x"].device.type == "cpu"


def test_outputs_in_float32() -> None:
    @utils.convert_outputs_to_fp32
    def forward(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"half": x.half(), "double": x.double(), "whole": x.long()}

    found = forward(torch.ones(1))
    assert [tensor.dtype for tensor in found.values()] == [torch.float32, torch.float64, torch.int64]
    assert forward.__name__ == "forward"


# Versions, packages and the environment


def test_versions() -> None:
    assert utils.is_torch_version(">=", "2.2") and not utils.is_torch_version("<", "2.2.0")
    assert utils.compare_versions("pytest", ">", "1.10") and utils.compare_versions("pytest", "!=", "1.0")
    assert utils.compare_versions(torch.__version__, "==", str(torch.__version__))
    with pytest.raises(ValueError, match="knows no '~='"):
        utils.compare_versions("torch", "~=", "2.0")


def test_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from accelift.utils import imports

    assert utils.is_pytest_available() and not utils.is_cuda_available() and utils.is_bf16_available()
    assert not utils.is_mlu_available(check_device=True) and not utils.is_torch_xla_available(check_is_tpu=True)
    (tmp_path / "a_run_folder").mkdir()
    (tmp_path / "a_package").mkdir()
    (tmp_path / "a_package" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert imports._package("a_package")() and not imports._package("a_run_folder")(), "a folder is no package"
    assert "a_package" not in sys.modules, "asking does not import"


def test_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "old")
    before = dict(os.environ)
    with pytest.raises(KeyError), utils.patch_environment(kept=1, added=True):
        assert os.environ["KEPT"] == "1" and utils.parse_flag_from_env("ADDED")
        raise KeyError
    with utils.clear_environment():
        assert not os.environ
        os.environ["ADDED"] = "1"
    assert dict(os.environ) == before
    assert [utils.str_to_bool(word) for word in ("Yes", "off")] == [1, 0]
    assert utils.str_to_bool("on", to_bool=True) is True
    for word in ("", "perhaps"):
        with pytest.raises(ValueError, match="neither true nor false"):
            utils.str_to_bool(word)
    assert utils.parse_choice_from_env("KEPT") == "old" and utils.parse_choice_from_env("NOT_THERE", "x") == "x"
    monkeypatch.setenv("SIZE", "3")
    assert utils.get_int_from_env(["NOT_THERE", "SIZE"], 1) == 3 and utils.get_int_from_env(["NOT_THERE"], 1) == 1
    assert utils.are_libraries_initialized("torch", "nothing") == ["torch"]


def test_this_and_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert utils.merge_dicts({"a": {"b": 1}, "c": 2}, {"a": {"d": 3}, "c": {}}) == {"a": {"d": 3, "b": 1}, "c": 2}
    assert utils.recursive_getattr(SimpleNamespace(a=SimpleNamespace(b=3)), "a.b") == 3
    assert utils.convert_bytes(1536) == "1.5 KB" and utils.convert_bytes(5) == "5 bytes"
    assert utils.get_pretty_name(nn.Linear) == utils.get_pretty_name(nn.Linear(1, 1)) == "Linear"
    assert not utils.is_port_in_use(utils.get_free_port())
    torch.save({"x": torch.ones(1)}, tmp_path / "x.pt")
    assert utils.load(tmp_path / "x.pt")["x"].item() == 1
    torch.save(SimpleNamespace(), tmp_path / "y.pt")
    with pytest.raises(Exception, match="weights_only"):
        utils.load(tmp_path / "y.pt")
    assert list(utils.tqdm([1, 2])) == [1, 2] and "2/2" in capsys.readouterr().err
    with pytest.raises(ValueError, match="main_process_only by name"):
        utils.tqdm(True, [1])


def test_basic_configuration(tmp_path: Path) -> None:
    path = tmp_path / "new" / "launch.yaml"
    assert utils.write_basic_config("bf16", path) == path
    config = LaunchConfig.load(path)
    assert config.mixed_precision == "bf16" and config.use_cpu and config.num_processes == 1
    path.write_text("mine")
    assert utils.write_basic_config(save_location=path) is False and path.read_text() == "mine"


# Models and their surroundings


def test_extracting_models() -> None:
    acc = Accelerator(mixed_precision="bf16")
    author = nn.Linear(2, 1)
    prepared = acc.prepare(author)
    assert prepared is not author and acc.unwrap_model(prepared) is prepared
    assert utils.extract_model_from_parallel(prepared, keep_fp32_wrapper=False) is author
    plain = nn.Linear(2, 1)
    assert utils.extract_model_from_parallel(nn.DataParallel(nn.DataParallel(plain))) is plain
    with pytest.raises(ValueError, match="recursive=True"):
        utils.extract_model_from_parallel(plain, recursive=True)


def test_extracting_compiled_models() -> None:
    class Compiled(nn.Module):
        """Holds the model as what ``torch.compile`` returns does; the compiler itself takes seconds to import."""

        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self._orig_mod = model

    plain = nn.Linear(2, 1)
    compiled, around = Compiled(plain), Compiled(nn.DataParallel(plain))
    assert utils.is_compiled_module(compiled) and not utils.is_compiled_module(plain)
    assert utils.extract_model_from_parallel(compiled) is compiled
    assert utils.extract_model_from_parallel(nn.DataParallel(compiled)) is compiled
    assert utils.extract_model_from_parallel(nn.DataParallel(compiled), keep_torch_compile=False) is plain
    assert utils.extract_model_from_parallel(around) is plain
    assert isinstance(around._orig_mod, nn.DataParallel), "the one in use was changed"
    assert utils.has_compiled_regions(nn.Sequential(compiled)) and not utils.has_compiled_regions(compiled)
    assert not utils.has_compiled_regions(plain)


def test_states() -> None:
    assert not is_initialized()
    with pytest.raises(ValueError, match="needs an Accelerator first"):
        AcceleratorState()
    acc = Accelerator()
    assert is_initialized() and AcceleratorState().deepspeed_plugin is None
    acc.state.debug = True
    assert PartialState().debug, "collectives ask the state of the processes"
    assert acc.state.default_device == acc.device and not acc.state.fork_launched and not acc.multi_device
    ran = [acc.on_process(lambda: 1, process_index=3), acc.on_local_process(lambda: 1, local_process_index=3)]
    assert [one() for one in ran] == [1, 1], "one process does everything"
    inputs = {"x": [1, 2], "y": "text"}
    with acc.split_between_processes(inputs, apply_padding=True) as mine:
        assert mine is inputs
    AcceleratorState._reset_state(reset_partial_state=True)
    with pytest.raises(AttributeError, match=r"`AcceleratorState` object has no attribute `device`"):
        _ = acc.device
    with pytest.raises(AttributeError, match="object has no attribute 'nothing'"):
        _ = acc.state.nothing  # type: ignore[attr-defined]


def test_local_sgd_on_one_process() -> None:
    acc, model = Accelerator(), nn.Linear(1, 1)
    before = [parameter.clone() for parameter in model.parameters()]
    with LocalSGD(acc, model, 2) as local_sgd:
        for _ in range(3):
            local_sgd.step()
    assert all(map(torch.equal, model.parameters(), before)) and local_sgd.num_steps == 3
    with pytest.raises(ValueError, match="local_sgd_steps=0"):
        LocalSGD(acc, model, 0)


# Memory


def test_batch_size_that_fits() -> None:
    tried: list[int] = []

    @find_executable_batch_size(starting_batch_size=100)
    def train(batch_size: int, limit: int) -> int:
        tried.append(batch_size)
        if batch_size > limit:
            raise RuntimeError("CUDA out of memory. Tried to allocate much.")
        return batch_size

    assert train(80) == 72 and tried == [100, 90, 81, 72]
    assert train(limit=80) == 72 and tried[4:] == [72], "goes on with what was found"
    with pytest.raises(TypeError, match="takes 1 arguments besides the batch size and was called with 2"):
        train(64, 80)


def test_other_errors_and_other_sizes() -> None:
    sizes = iter([4, 2])

    def train(batch_size: int) -> int:
        if batch_size > 2:
            raise torch.cuda.OutOfMemoryError
        return batch_size

    assert find_executable_batch_size(train, 8, lambda: next(sizes))() == 2

    def never_fits(batch_size: int) -> None:
        raise MemoryError

    with pytest.raises(RuntimeError, match="not even a batch size of 1"):
        find_executable_batch_size(never_fits, 2)()

    def fails(batch_size: int) -> None:
        raise ValueError(batch_size)

    with pytest.raises(ValueError, match="8"):
        find_executable_batch_size(fails, 8)()


def test_memory_is_free_when_trying_again() -> None:
    alive: list[Any] = []

    class Big:
        def __init__(self) -> None:
            alive.append(self.number)

        number = 0

        def __del__(self) -> None:
            alive.clear()

    def train(batch_size: int) -> list[Any]:
        before = list(alive)
        big = Big()
        if batch_size > 1:
            raise MemoryError(str(big))
        return before

    assert find_executable_batch_size(train, 2)() == [], "what the failed attempt held was still there"


def test_release_memory() -> None:
    a, b = utils.release_memory(torch.ones(1), torch.ones(2))
    assert a is None and b is None and utils.release_memory() == []
    utils.clear_device_cache()


# Logging and profiling


@pytest.fixture
def records() -> Any:
    class Keeping(logging.Handler):
        def __init__(self) -> None:
            super().__init__()
            self.kept: list[logging.LogRecord] = []

        def emit(self, record: logging.LogRecord) -> None:
            self.kept.append(record)

    handler = Keeping()
    logger = logging.getLogger("a test")
    logger.addHandler(handler)
    yield handler.kept
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def test_log_records_point_to_the_caller(records: list[logging.LogRecord]) -> None:
    logger = get_logger("a test", log_level="info")
    PartialState()
    logger.info("%s", 1)
    logger.log(logging.ERROR, "two", extra={"more": 3}, main_process_only=False)
    logger.warning_once("three")
    logger.debug("nothing")

    def helper() -> None:
        logger.info("four", stacklevel=2)

    helper()
    assert [record.getMessage() for record in records] == ["1", "two", "three", "four"]
    assert {record.funcName for record in records} == {"test_log_records_point_to_the_caller"}
    assert {Path(record.pathname).name for record in records} == {"test_utils.py"}


def test_warnings_once(records: list[logging.LogRecord]) -> None:
    for _ in range(3):
        get_logger("a test").warning_once("seen %s", [1])
        get_logger("a test").warning_once("seen %s", [2])
    assert [record.getMessage() for record in records] == ["seen [1]", "seen [2]"]


def test_log_levels(monkeypatch: pytest.MonkeyPatch, records: list[logging.LogRecord]) -> None:
    root = logging.getLogger().level
    for name, level in (("ACCELERATE_LOG_LEVEL", "error"), ("ACCELIFT_LOG_LEVEL", "DEBUG")):
        monkeypatch.setenv(name, level)
        assert get_logger("a test").logger.level == getattr(logging, level.upper())
    assert get_logger("a test", "WARNING").logger.level == logging.WARNING
    assert logging.getLogger().level == root, "other loggers are left alone"
    with pytest.raises(ValueError, match="no log level 'LOUD'"):
        get_logger("a test", "LOUD")


def test_logging_before_there_is_an_accelerator(
    monkeypatch: pytest.MonkeyPatch, records: list[logging.LogRecord]
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    logger = get_logger("a test", "INFO")
    logger.info("on the main process")
    logger.info("everywhere", main_process_only=False)
    assert [record.getMessage() for record in records] == ["[RANK 1] everywhere"]
    with pytest.raises(RuntimeError, match="needs an Accelerator"):
        logger.info("in turn", in_order=True)


def test_profiling(tmp_path: Path) -> None:
    ready: list[int] = []
    handler = ProfileKwargs(
        activities=["cpu"],
        schedule_option={"wait": 0, "warmup": 1, "active": 1, "repeat": 2},
        on_trace_ready=lambda profiler: ready.append(profiler.step_num),
        record_shapes=True,
        output_trace_dir=str(tmp_path / "traces"),
    )
    acc = Accelerator(kwargs_handlers=[handler])
    with acc.profile() as profiler:
        for _ in range(4):
            torch.ones(2, 3) @ torch.ones(3, 1)
            profiler.step()
    assert ready == [2, 4]
    events = json.loads((tmp_path / "traces" / "profile_0.json").read_text())["traceEvents"]
    assert any(event.get("name") == "aten::mm" for event in events)
    with acc.profile(ProfileKwargs()) as profiler:
        torch.ones(2) + 1
    assert len(list(tmp_path.rglob("*.json"))) == 1 and profiler.key_averages()
    with (
        pytest.raises(ValueError, match=r"activities=\['tpu'\].*cpu.* can be recorded"),
        acc.profile(ProfileKwargs(activities=["tpu"])),
    ):
        pass
