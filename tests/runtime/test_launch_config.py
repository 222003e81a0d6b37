"""The launch configuration, as a dataclass and as YAML."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from accelift.config import ConfigError, LaunchConfig


def test_yaml_is_readable_and_stable() -> None:
    config = LaunchConfig(distributed_type="MULTI_GPU", num_processes=2, main_process_port=0)
    origins = {
        "mixed_precision": "train.py: no autocast",
        "num_processes": "--num-processes\n2",
        "debug": "kept",
    }
    text = config.to_yaml(origins, ["checked by hand", "two\nlines"])
    assert text == (
        "compute_environment: LOCAL_MACHINE\n"
        "distributed_type: MULTI_GPU\n"
        "mixed_precision: 'no'  # train.py: no autocast\n"
        "num_machines: 1\n"
        "num_processes: 2       # --num-processes 2\n"
        "main_process_port: 0\n"
        "use_cpu: false\n"
        "debug: false           # kept\n"
        "# checked by hand\n"
        "# two\n"
        "# lines\n"
    )
    assert LaunchConfig.from_yaml(text) == config
    with pytest.raises(ConfigError, match="num_proceses: there is no such key"):
        config.to_yaml({"num_proceses": "x"})


CONFIGS = [
    LaunchConfig(),
    LaunchConfig(distributed_type="MULTI_CPU", num_processes=4, use_cpu=True, debug=True),
    LaunchConfig(
        distributed_type="MULTI_GPU",
        mixed_precision="bf16",
        num_machines=2,
        num_processes=8,
        machine_rank=1,
        main_process_ip="10.0.0.1",
        main_process_port=1234,
        rdzv_backend="c10d",
        gpu_ids="0,1,2,3",
        same_network=False,
        main_training_function="train",
    ),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_round_trip(config: LaunchConfig, tmp_path: Path) -> None:
    path = tmp_path / "launch.yaml"
    path.write_text(config.to_yaml({"num_processes": "here: # 'quoted'"}, ["a note: {x}"]))
    assert LaunchConfig.load(path) == config


@pytest.mark.parametrize("config", CONFIGS)
def test_other_launcher_reads_it(config: LaunchConfig, tmp_path: Path) -> None:
    theirs = pytest.importorskip("accelerate.commands.config.config_args")
    path = tmp_path / "launch.yaml"
    path.write_text(config.to_yaml({"num_processes": "here"}, ["a note"]))
    read = theirs.load_config_from_file(str(path))
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if value != field.default:
            found = getattr(read, field.name)
            assert getattr(found, "value", found) == value


THEIRS = """
compute_environment: LOCAL_MACHINE
debug: false
distributed_type: MULTI_GPU
downcast_bf16: 'no'
dynamo_config: {}
enable_cpu_affinity: false
fsdp_config:
gpu_ids: 0
machine_rank: 0
main_process_ip: null
main_training_function: main
mixed_precision: no
num_machines: 1
num_processes: 2
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: false
"""


def test_files_of_the_other_launcher_are_read() -> None:
    config = LaunchConfig.from_yaml(THEIRS)
    assert config == LaunchConfig(distributed_type="MULTI_GPU", num_processes=2, gpu_ids="0")
    assert LaunchConfig.from_yaml("distributed_type: NO").distributed_type == "NO"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("num_process: 2", ["num_process: there is no such key", "did you mean num_processes?"]),
        ("num_processes: two", ["num_processes: 'two' is not a whole number"]),
        ("num_processes: true", ["num_processes: True is not a whole number"]),
        ("use_cpu: 1", ["use_cpu: 1 is not true or false"]),
        ("main_process_ip: 3", ["main_process_ip: 3 is not a text or null"]),
        ("mixed_precision: fp32", ["mixed_precision: 'fp32' is not known", "no, fp16, bf16"]),
        ("mixed_precision: fp8", ["mixed_precision: fp8 is not offered yet"]),
        ("distributed_type: FSDP", ["distributed_type: FSDP is not offered yet", "MULTI_GPU"]),
        ("distributed_type: MULTIGPU", ["did you mean MULTI_GPU?"]),
        ("compute_environment: AMAZON_SAGEMAKER", ["is not offered yet", "LOCAL_MACHINE"]),
        ("fsdp_config: {version: 2}", ["fsdp_config: it is not offered yet"]),
        ("enable_cpu_affinity: true", ["enable_cpu_affinity: true is not offered"]),
        ("num_processes: 0", ["num_processes: 0 is less than 1"]),
        ("num_processes: 2", ["contradicts distributed_type: NO"]),
        ("machine_rank: 1", ["machine_rank: 1 is not one of 1 machines"]),
        (
            "{distributed_type: MULTI_GPU, num_processes: 3, num_machines: 2}",
            ["cannot be spread evenly over num_machines: 2"],
        ),
        ("{use_cpu: true, distributed_type: MULTI_GPU}", ["use_cpu: true contradicts"]),
        ("main_process_port: 70000", ["70000 is not a port"]),
        ("gpu_ids: first", ["gpu_ids: 'first' is neither all nor numbers"]),
        ("- a\n- b", ["lines `key: value`"]),
        ("", ["lines `key: value`"]),
        ("a: [", ["it is not YAML"]),
    ],
)
def test_errors_name_the_file_and_the_key(text: str, parts: list[str], tmp_path: Path) -> None:
    path = tmp_path / "launch.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        LaunchConfig.load(path)
    message = str(error.value)
    assert message.startswith(str(path)) and message.endswith(".") and "\n" not in message
    for part in parts:
        assert part in message


@pytest.mark.parametrize("write", [None, b"\xff\xfe\xff"])
def test_files_that_cannot_be_read(write: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "launch.yaml"
    if write is not None:
        path.write_bytes(write)
    with pytest.raises(ConfigError, match="cannot be read"):
        LaunchConfig.load(path)


def test_wrong_values_are_refused_in_python_too() -> None:
    wrong: Any = "2"
    with pytest.raises(ConfigError, match="num_processes: '2' is not a whole number"):
        LaunchConfig(num_processes=wrong)
    with pytest.raises(dataclasses.FrozenInstanceError):
        LaunchConfig().num_processes = 2  # type: ignore[misc]
