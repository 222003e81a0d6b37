"""What makes up the state of a training run, and what of it is in which file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

import accelift
from accelift.checkpoint.weights import parameter_names
from accelift.gradients import GradientState
from accelift.state import PartialState

if TYPE_CHECKING:
    from torch.optim.lr_scheduler import LRScheduler

    from accelift.data.loader import PreparedLoader

OPTIMIZER, SCHEDULER, SCALER, OBJECT = "optimizer.bin", "scheduler.bin", "scaler.pt", "custom_checkpoint_{}.pkl"
# Of one process each.
OWN, GRADIENTS, BUFFERS = "random_states_{}.pkl", "gradients_{}.bin", "buffers_{}.bin"


@dataclass
class Run:
    """What there is to save and to load.

    Attributes:
        state: the processes.
        gradient_state: where gradients stand.
        models, optimizers, schedulers, loaders: what was prepared.
        scaler: that of losses, if there is one.
        objects: what the script has registered.
    """

    state: PartialState
    gradient_state: GradientState
    models: list[nn.Module]
    optimizers: list[Optimizer]
    schedulers: list[LRScheduler]
    loaders: list[PreparedLoader]
    scaler: torch.amp.GradScaler | None
    objects: list[Any]

    def facts(self) -> dict[str, Any]:
        """What a checkpoint is made of and with, for its manifest."""
        names = parameter_names(self.models)
        return {
            "accelift": accelift.__version__,
            "torch": str(torch.__version__),
            "processes": self.state.num_processes,
            "models": len(self.models),
            "optimizers": [type(optimizer).__name__ for optimizer in self.optimizers],
            "parameters": [
                [names.get(id(parameter), "") for parameter in parameters_of(optimizer)]
                for optimizer in self.optimizers
            ],
            "schedulers": [type(scheduler).__name__ for scheduler in self.schedulers],
            "loaders": len(self.loaders),
            "scaler": self.scaler is not None,
            "objects": len(self.objects),
        }


def parameters_of(optimizer: Optimizer) -> list[torch.Tensor]:
    """The parameters of an optimizer, group by group."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
