"""The launcher: what it starts, what it says, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from accelift.launch import command as launch_command
from accelift.launch import main
from runtime_jobs import HERE, plain_environment

SCRIPT = str(HERE / "workers" / "launched.py")


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "accelift", "launch", *arguments],
        env=plain_environment(**environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def launch(*arguments: str, **environment: str) -> tuple[int, str, str]:
    process = start(*arguments, **environment)
    try:
        out, err = process.communicate(timeout=90)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process.returncode, out, err


def told(path: Path, rank: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(f"{path}.{rank}").read_text())
    return found


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def await_file(path: Path, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists() or not path.read_text():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.05)


# Usage


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_command, "visible_gpus", lambda: 1)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["missing.py"], ["there is no script missing.py."]),
        ([str(HERE)], ["there is no script"]),
        ([], ["script", "--help"]),
        (["--num_procesess", "2", SCRIPT], ["no flag --num_procesess", "--num_processes?"]),
        (["--num-procs=2", SCRIPT], ["no flag --num-procs=2"]),
        (["--use_fsdp", SCRIPT], ["--use_fsdp is not offered: models are replicated"]),
        (["--fsdp-offload-params", "true", SCRIPT], ["--fsdp-offload-params is not offered"]),
        (["--dynamo_backend", "inductor", SCRIPT], ["torch.compile"]),
        (["--num_processes", "0", SCRIPT], ["'0' is not a whole number of at least 1"]),
        (["--max-restarts", "-1", SCRIPT], ["--max_restarts"]),
        (["--max-restarts=-1", SCRIPT], ["'-1' is not a whole number"]),
        (["--mixed_precision", "fp32", SCRIPT], ["fp32", "bf16"]),
        (["--cpu", "--multi_gpu", SCRIPT], ["contradict each other"]),
        (["-m", "--no_python", "x"], ["contradict each other"]),
        (["--num_processes", "2", SCRIPT], ["no GPU is visible", "--cpu"]),
        (["--multi_gpu", SCRIPT], ["give --num_processes too"]),
        (["--config_file", "missing.yaml", SCRIPT], ["missing.yaml", "cannot be read"]),
        (["--cpu", "--num_processes", "3", "--num_machines", "2", SCRIPT], ["spread evenly"]),
        (["--cpu", "--num_processes", "2", "--num_machines", "2", SCRIPT], ["--main_process_ip"]),
    ],
)
def test_usage(arguments: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("accelift launch: ") and said.count("\n") == 1, said
    for part in parts:
        assert part in said


def test_more_processes_than_gpus(one_gpu: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--num_processes", "2", SCRIPT]) == 2
    assert "only 1 GPU is visible" in capsys.readouterr().err


def test_configuration_that_wants_gpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "launch.yaml"
    config.write_text("distributed_type: MULTI_GPU\nnum_processes: 2\n")
    monkeypatch.setattr(launch_command, "visible_gpus", lambda: 0)
    assert main(["--config_file", str(config), SCRIPT]) == 2
    assert "2 processes on GPUs were asked for but no GPU is visible" in capsys.readouterr().err


def configuration(*arguments: str) -> Any:
    return launch_command._configuration(launch_command.parse([*arguments, SCRIPT]))


def test_flags_override_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_command, "visible_gpus", lambda: 4)
    file = tmp_path / "launch.yaml"
    file.write_text("distributed_type: MULTI_GPU\nnum_processes: 2\nmixed_precision: bf16\n")
    config = configuration("--config-file", str(file))
    assert (config.num_processes, config.mixed_precision) == (2, "bf16")
    config = configuration("--config_file", str(file), "--num-processes=3", "--mixed-precision=no")
    assert (config.num_processes, config.mixed_precision) == (3, "no")
    for spelling in ("--cpu", "--use_cpu", "--use-cpu"):
        config = configuration("--config_file", str(file), spelling)
        assert (config.distributed_type, config.use_cpu) == ("MULTI_CPU", True)
    config = configuration("--config_file", str(file), "--num_processes", "1")
    assert config.distributed_type == "NO"


@pytest.mark.parametrize("given", [["-n", "2"], ["-n2"], ["-n=2"], ["--num_processes", "2"]])
def test_short_form_of_the_number_of_processes(given: list[str]) -> None:
    assert configuration("--cpu", *given).num_processes == 2


def test_short_flags_behind_the_script_are_its_own() -> None:
    job = launch_command._job(launch_command.parse(["--cpu", SCRIPT, "-n", "7"]))
    assert job.config.num_processes == 1
    assert job.command == (SCRIPT, "-n", "7")


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for gpus, processes, kind in ((0, 1, "NO"), (1, 1, "NO"), (4, 4, "MULTI_GPU")):
        monkeypatch.setattr(launch_command, "visible_gpus", lambda n=gpus: n)
        config = configuration()
        assert (config.num_processes, config.distributed_type) == (processes, kind)


def test_words_for_several_machines() -> None:
    from accelift.launch.processes import _arguments

    common = ["--cpu", "--num_processes", "4", "--num_machines", "2", "--machine_rank", "1"]
    common += ["--main_process_ip", "10.0.0.1"]
    job = launch_command._job(launch_command.parse([*common, SCRIPT, "--flag"]))
    assert _arguments(job) == [
        "--nproc-per-node=2", "--max-restarts=0", "--nnodes=2", "--rdzv-backend=static",
        "--node-rank=1", "--master-addr=10.0.0.1", "--master-port=29500",
    ]  # fmt: skip
    common += ["--rdzv_backend", "c10d", "--main_process_port", "1234", "-m"]
    job = launch_command._job(launch_command.parse([*common, "package.module"]))
    assert _arguments(job)[2:] == [
        "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=10.0.0.1:1234",
        "--rdzv-id=accelift-1234", "--module",
    ]  # fmt: skip


# One process

ONE = """
import os, sys
sys.modules["torch"] = None
from accelift.launch import main
def execute(program, command, environment):
    print(command == [sys.executable, sys.argv[1], "--num_processes", "7"], program)
    sys.exit(0)
os.execvpe = execute
main([sys.argv[1], "--num_processes", "7"])
"""


def test_one_process_needs_no_torch_and_takes_the_place_of_the_launcher(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ONE, SCRIPT],
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"True {sys.executable}\n", done.stderr

    path = tmp_path / "told"
    process = start(
        "--cpu", "--gradient_accumulation_steps=3", "--mixed_precision", "bf16", "--debug", SCRIPT,
        "tell", str(path), "--num_processes", "a b", WORLD_SIZE="4", RANK="3",
    )  # fmt: skip
    assert process.communicate() == ("", "") and process.returncode == 0
    found = told(path)
    assert found["pid"] == process.pid and found["name"] == "__main__"
    assert found["argv"] == ["tell", str(path), "--num_processes", "a b"]
    assert found["environment"] == {
        "RANK": None,
        "LOCAL_RANK": None,
        "WORLD_SIZE": None,
        "OMP_NUM_THREADS": "1",
        "ACCELERATE_USE_CPU": "true",
        "ACCELERATE_MIXED_PRECISION": "bf16",
        "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "3",
        "ACCELERATE_DEBUG_MODE": "true",
    }


def test_modules_and_programs() -> None:
    assert launch("-m", "json.tool", "--help")[1].startswith("usage: ")
    assert launch("--no_python", "echo", "--hello")[:2] == (0, "--hello\n")
    code, _, err = launch("--no_python", "no-such-program")
    assert code == 2 and "cannot run no-such-program" in err


# Several processes


@pytest.mark.slow
def test_several_processes_and_several_jobs_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / "one", tmp_path / "other"]
    jobs = [
        start("--cpu", "--num-processes", "2", "--mixed_precision", "bf16", SCRIPT,
              "job", str(path), "--cpu", "--n", "x y")  # --n: no short form of a flag of torchrun
        for path in paths
    ]  # fmt: skip
    for process, path in zip(jobs, paths, strict=True):
        out, err = process.communicate(timeout=90)
        assert (process.returncode, out, err) == (0, "", "")
        for rank in range(2):
            assert Path(f"{path}.{rank}.total").read_text() == "3 bf16 cpu"
            found = told(path, rank)
            assert found["argv"] == ["job", str(path), "--cpu", "--n", "x y"]
            assert found["environment"]["RANK"] == str(rank)
            assert found["environment"]["WORLD_SIZE"] == "2"
            assert found["environment"]["OMP_NUM_THREADS"] == "1"


@pytest.mark.slow
def test_sets_of_words_have_one_order_on_every_process(tmp_path: Path) -> None:
    script = tmp_path / "words.py"
    script.write_text("import sys\nsys.stdout.write(str(list({'a', 'b', 'c', 'd', 'e', 'f'})) + chr(10))\n")
    code, out, _ = launch("--cpu", "--num_processes", "3", str(script))
    assert code == 0 and len(out.splitlines()) == 3 and len(set(out.splitlines())) == 1


@pytest.mark.slow
def test_exit_code_of_the_rank_that_failed(tmp_path: Path) -> None:
    code, _, err = launch("--cpu", "--num_processes", "2", SCRIPT, "exit", str(tmp_path / "x"), "3")
    assert code == 3
    assert err == ("accelift launch: rank 1 of 2 failed with exit code 3; what it said is above.\n")
    assert not is_alive(told(tmp_path / "x", 0)["pid"])


@pytest.mark.slow
def test_traceback_of_the_rank_that_failed() -> None:
    # The other one waits for it in a collective, with a patience of half an hour.
    code, _, err = launch("--cpu", "--num_processes", "2", SCRIPT, "raise", "x")
    assert code == 1
    assert "ValueError: this one failed on purpose" in err
    assert "elastic" not in err and "ChildFailedError" not in err
    last = err.strip().splitlines()[-1]
    assert last.startswith("accelift launch: rank ") and "failed with exit code 1" in last


@pytest.mark.slow
def test_rank_that_is_killed() -> None:
    code, _, err = launch("--cpu", "--num_processes", "2", SCRIPT, "kill", "x")
    assert code == 128 + signal.SIGKILL
    assert err == "accelift launch: rank 1 of 2 was killed by SIGKILL.\n"
    assert launch("-q", "--cpu", "--num_processes", "2", SCRIPT, "kill", "x")[2] == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "whole_group", "expected"),
    [
        (signal.SIGINT, True, 130),
        (signal.SIGINT, False, 130),
        (signal.SIGTERM, False, 143),
        (signal.SIGKILL, False, -signal.SIGKILL),
    ],
)
def test_signals_leave_nothing_behind(number: signal.Signals, whole_group: bool, expected: int, tmp_path: Path) -> None:
    path = tmp_path / "told"
    process = start("--cpu", "--num_processes", "2", SCRIPT, "wait", str(path))
    for rank in range(2):
        await_file(Path(f"{path}.{rank}"))
    pids = [told(path, rank)["pid"] for rank in range(2)]
    assert all(map(is_alive, pids)) and told(path)["parent"] == process.pid
    if whole_group:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    process.communicate(timeout=60)  # until the processes, which write there, too, end
    assert process.returncode == expected
    deadline = time.monotonic() + 5
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_alive, pids))


@pytest.mark.slow
def test_workers_that_run_the_script_again() -> None:
    script = str(HERE / "workers" / "spawned_workers.py")
    code, out, err = launch("--cpu", "--num_processes", "2", script)
    assert (code, out, err) == (0, "fine\n", "")


@pytest.mark.slow
def test_rank_that_aborts_may_have_had_other_shapes(tmp_path: Path) -> None:
    script = tmp_path / "shapes.py"
    script.write_text(
        "import torch\nfrom accelift import Accelerator\naccelerator = Accelerator(cpu=True)\n"
        "accelerator.gather(torch.ones(2 + accelerator.process_index))\n"
    )
    code, _, err = launch("--cpu", "--num_processes", "2", str(script))
    assert code == 128 + signal.SIGABRT
    assert "was killed by SIGABRT; if the processes do not call the same operations on the same shapes, --debug" in err
    code, _, err = launch("--cpu", "--debug", "--num_processes", "2", str(script))
    assert code == 1
    assert "gather of float32 (2,) at" in err and "gather of float32 (3,) at" in err
