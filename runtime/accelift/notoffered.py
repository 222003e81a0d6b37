"""Names of Hugging Face Accelerate that are not offered, and what to use instead.

They can be imported, so that scripts which only may need them run; using one is an error.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NoReturn

_INSTEAD = {
    "models are loaded whole; make a large one under torch.device('meta') and call its "
    "load_state_dict(assign=True), or use Hugging Face Accelerate for models beyond one device": """
        OffloadedWeightsLoader PrefixedDataset align_module_device calculate_maximum_sizes check_device_map
        check_tied_parameters_in_config check_tied_parameters_on_same_device compute_module_sizes cpu_offload
        cpu_offload_with_hook disk_offload dispatch_model dtype_byte_size extract_submodules_state_dict
        find_tied_parameters get_balanced_memory get_max_layer_size get_max_memory has_offloaded_params
        id_tensor_storage infer_auto_device_map init_empty_weights init_on_device load_checkpoint_and_dispatch
        load_offloaded_weight load_offloaded_weights load_state_dict named_module_tensors
        offload_state_dict offload_weight retie_parameters save_offload_index set_module_tensor_to_device""",
    "use torch.distributed.pipelining": "prepare_pippy",
    "models are replicated, as DistributedDataParallel does; use Hugging Face Accelerate, or "
    "torch.distributed.fsdp without an Accelerator, to shard them": """
        FullyShardedDataParallelPlugin disable_fsdp_ram_efficient_loading enable_fsdp_ram_efficient_loading
        ensure_weights_retied fsdp2_apply_ac fsdp2_canonicalize_names fsdp2_load_full_state_dict fsdp2_prepare_model
        fsdp2_switch_optimizer_parameters get_fsdp2_grad_scaler load_fsdp_model load_fsdp_optimizer
        merge_fsdp_weights save_fsdp_model save_fsdp_optimizer""",
    "models are replicated, as DistributedDataParallel does; use Hugging Face Accelerate, or deepspeed "
    "without an Accelerator": """
        DeepSpeedEngineWrapper DeepSpeedOptimizerWrapper DeepSpeedPlugin DeepSpeedSchedulerWrapper
        DeepSpeedSequenceParallelConfig DummyOptim DummyScheduler GatheredParameters HfDeepSpeedConfig
        compile_regions_deepspeed deepspeed_required get_active_deepspeed_plugin map_pytorch_optim_to_deepspeed
        prepare_deepspeed_cmd_env""",
    "models are replicated, as DistributedDataParallel does; use Megatron-LM without an Accelerator": """
        AbstractTrainStep BertTrainStep GPTTrainStep MegatronEngine MegatronLMDummyDataLoader
        MegatronLMDummyScheduler MegatronLMOptimizerWrapper MegatronLMPlugin MegatronLMSchedulerWrapper T5TrainStep
        add_model_config_to_megatron_parser avg_losses_across_data_parallel_group gather_across_data_parallel_groups
        megatron_lm_initialize megatron_lm_prepare_data_loader megatron_lm_prepare_model_optimizer_scheduler
        megatron_lm_prepare_optimizer megatron_lm_prepare_scheduler""",
    "models are replicated, as DistributedDataParallel does; use torch.distributed.tensor.parallel without an "
    "Accelerator": """
        ParallelismConfig TorchContextParallelConfig TorchTensorParallelConfig TorchTensorParallelPlugin
        get_model_tp_size model_has_dtensor""",
    'use mixed_precision="bf16"': """
        AORecipeKwargs CustomDtype FP8RecipeKwargs MSAMPRecipeKwargs TERecipeKwargs apply_fp8_autowrap
        check_cuda_fp8_capability contextual_fp8_autocast convert_model convert_model_to_fp8_ao
        filter_first_and_last_linear_layers has_ao_layers has_transformer_engine_layers torchao_required""",
    "use accelerator.autocast() and accelerator.scaler": "get_grad_scaler get_mixed_precision_context_manager",
    "use bitsandbytes directly": "BnbQuantizationConfig has_4bit_bnb_layers load_and_quantize_model",
    "start the script on its machines with `accelift launch`": """
        ComputeEnvironment PrepareForLaunch SageMakerDistributedType check_cuda_p2p_ib_support
        convert_dict_to_env_variables get_cpu_distributed_information get_current_device_type get_gpu_info
        install_xla prepare_multi_gpu_env prepare_sagemager_args_inputs prepare_simple_launcher_cmd_env prepare_tpu
        purge_accelerate_environment""",
    "use numactl or taskset": "override_numa_affinity set_numa_affinity",
    "call torch.compile on the blocks of the model": "compile_regions compile_regions_fsdp2",
    "name the backend as a text, as torch.compile does": "DynamoBackend",
    "use peft or transformers directly": "is_peft_model",
    "use accelerator.save_model": "clean_state_dict_for_safetensors convert_file_size_to_int",
    "use torch.nn.Module.modules": "get_module_children_bottom_up",
    "catch the warnings of torch": "CannotPadNestedTensorWarning",
    "look at platform.release()": "check_os_kernel",
}

NOT_OFFERED = {name: instead for instead, names in _INSTEAD.items() for name in names.split()}


class _NotOffered(type):
    """The type of stand-ins: classes that cannot be used for anything but ``isinstance``."""

    sentence: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(cls.sentence)

    def __getattr__(cls, name: str) -> NoReturn:
        raise AttributeError(cls.sentence if not name.startswith("__") else name)


def stand_in(name: str, module: str) -> Any:
    """What stands in for a name of ``module`` that is not offered.

    Raises:
        AttributeError: if there is no such name in Hugging Face Accelerate either.
    """
    if name not in NOT_OFFERED:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return _stand_in(name)


@cache
def _stand_in(name: str) -> type:
    sentence = f"{name} is not offered: {NOT_OFFERED[name]}."
    return _NotOffered(name, (), {"__doc__": sentence, "sentence": sentence})
