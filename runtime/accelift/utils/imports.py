"""Which packages are installed, and which devices there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from accelift import environment
from accelift.packages import is_installed
from accelift.utils.versions import is_torch_version

Question = Callable[..., bool]


def _package(*packages: str) -> Question:
    """Asks whether one of the packages is installed; arguments make no difference."""
    return lambda *_args, **_kwargs: any(map(is_installed, packages))


def _device(kind: str) -> Question:
    """Asks whether torch finds a device of the kind; arguments make no difference.

    CUDA is not initialised by this, which a process must not have done that is to be forked.
    """

    def is_available(*_args: Any, **_kwargs: Any) -> bool:
        with environment.patch_environment(PYTORCH_NVML_BASED_CUDA_CHECK="1"):
            module = getattr(torch, kind, None)
            return module is not None and bool(module.is_available())

    return is_available


def _never(*_args: Any, **_kwargs: Any) -> bool:
    """What is not offered here is not available."""
    return False


is_4bit_bnb_available = is_8bit_bnb_available = is_bnb_available = _package("bitsandbytes")
is_aim_available = _package("aim")
is_amdsmi_available = _package("amdsmi")
is_bitsandbytes_multi_backend_available = _package("bitsandbytes")
is_boto3_available = _package("boto3")
is_clearml_available = _package("clearml")
is_comet_ml_available = _package("comet_ml")
is_cuda_available = _device("cuda")
is_datasets_available = _package("datasets")
is_deepspeed_available = _package("deepspeed")
is_dvclive_available = _package("dvclive")
is_fp8_available = _never
is_habana_gaudi1 = _never
is_hpu_available = _device("hpu")
is_import_timer_available = _package("import_timer")
is_lomo_available = _package("lomo_optim")
is_matplotlib_available = _package("matplotlib")
is_megatron_lm_available = _package("megatron")
is_mlflow_available = _package("mlflow")
is_mlu_available = _device("mlu")
is_mps_available = _device("mps")
is_msamp_available = _package("msamp")
is_musa_available = _device("musa")
is_neuron_available = _device("neuron")
is_npu_available = _device("npu")
is_numpy_available = _package("numpy")
is_pandas_available = _package("pandas")
is_peft_available = _package("peft")
is_pippy_available = _never
is_pynvml_available = _package("pynvml")
is_pytest_available = _package("pytest")
is_sagemaker_available = _package("sagemaker")
is_schedulefree_available = _package("schedulefree")
is_sdaa_available = _device("sdaa")
is_swanlab_available = _package("swanlab")
is_tensorboard_available = _package("tensorboard", "tensorboardX")
is_timm_available = _package("timm")
is_torch_xla_available = _package("torch_xla")
is_torchao_available = _package("torchao")
is_torchdata_available = is_torchdata_stateful_dataloader_available = _package("torchdata")
is_torchvision_available = _package("torchvision")
is_tqdm_available = _package("tqdm")
is_trackio_available = _package("trackio")
is_transformer_engine_available = is_transformer_engine_mxfp8_available = _package("transformer_engine")
is_transformers_available = _package("transformers")
is_triton_available = _package("triton")
is_wandb_available = _package("wandb")
is_xpu_available = _device("xpu")


def is_bf16_available(ignore_tpu: bool = False) -> bool:
    """Whether this machine's device computes in bfloat16."""
    return torch.cuda.is_bf16_supported() if is_cuda_available() else True


def is_fp16_available() -> bool:
    """Whether this machine's device computes in float16."""
    return True


def is_rich_available() -> bool:
    """Whether rich is installed and ``ACCELERATE_ENABLE_RICH`` says that it is wanted."""
    return is_installed("rich") and environment.flag("ENABLE_RICH")


def is_rocm_available() -> bool:
    """Whether there is a GPU that torch drives through ROCm."""
    return torch.version.hip is not None and is_cuda_available()


def is_torch_distributed_available() -> bool:
    """Whether torch was built for several processes."""
    return torch.distributed.is_available()


def is_weights_only_available() -> bool:
    """Whether ``torch.load(weights_only=True)`` can be told of further types."""
    return is_torch_version(">=", "2.4.0")


def is_xccl_available() -> bool:
    """Whether torch was built with the backend for several XPUs."""
    return bool(getattr(torch.distributed, "is_xccl_available", _never)())


__all__ = [
    "is_4bit_bnb_available",
    "is_8bit_bnb_available",
    "is_aim_available",
    "is_amdsmi_available",
    "is_bf16_available",
    "is_bitsandbytes_multi_backend_available",
    "is_bnb_available",
    "is_boto3_available",
    "is_clearml_available",
    "is_comet_ml_available",
    "is_cuda_available",
    "is_datasets_available",
    "is_deepspeed_available",
    "is_dvclive_available",
    "is_fp8_available",
    "is_fp16_available",
    "is_habana_gaudi1",
    "is_hpu_available",
    "is_import_timer_available",
    "is_lomo_available",
    "is_matplotlib_available",
    "is_megatron_lm_available",
    "is_mlflow_available",
    "is_mlu_available",
    "is_mps_available",
    "is_msamp_available",
    "is_musa_available",
    "is_neuron_available",
    "is_npu_available",
    "is_numpy_available",
    "is_pandas_available",
    "is_peft_available",
    "is_pippy_available",
    "is_pynvml_available",
    "is_pytest_available",
    "is_rich_available",
    "is_rocm_available",
    "is_sagemaker_available",
    "is_schedulefree_available",
    "is_sdaa_available",
    "is_swanlab_available",
    "is_tensorboard_available",
    "is_timm_available",
    "is_torch_distributed_available",
    "is_torch_xla_available",
    "is_torchao_available",
    "is_torchdata_available",
    "is_torchdata_stateful_dataloader_available",
    "is_torchvision_available",
    "is_tqdm_available",
    "is_trackio_available",
    "is_transformer_engine_available",
    "is_transformer_engine_mxfp8_available",
    "is_transformers_available",
    "is_triton_available",
    "is_wandb_available",
    "is_weights_only_available",
    "is_xccl_available",
    "is_xpu_available",
]
