"""Bringing the state of a training run back from a folder."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.optim import Optimizer

from accelift.checkpoint import process
from accelift.checkpoint.files import CheckpointError, read_state
from accelift.checkpoint.folder import MANIFEST, Folder
from accelift.checkpoint.memory import in_memory
from accelift.checkpoint.run import (
    BUFFERS,
    GRADIENTS,
    OBJECT,
    OPTIMIZER,
    OWN,
    SCALER,
    SCHEDULER,
    Run,
    parameters_of,
)
from accelift.checkpoint.weights import NAME, SAFE_NAME, Loading, numbered, read_weights

if TYPE_CHECKING:
    from accelift.data.loader import PreparedLoader


class Resuming:
    """A checkpoint that was read and fits a run, about to be loaded into it.

    Everything is read and compared first, so that a checkpoint that is refused changes nothing.

    Args:
        run: what to load into; without optimizers nothing is trained, and only models, random
            generators and registered objects are loaded.
        models: the models, without those that a hook has loaded.
        folder: the checkpoint.
        kwargs: arguments of the models' ``load_state_dict``.

    Raises:
        CheckpointError: naming the file, if it is damaged or of another run.
    """

    def __init__(self, run: Run, models: list[nn.Module], folder: Folder, **kwargs: Any) -> None:
        self._run = run
        self._folder = folder
        self._facts = folder.facts
        self._steps: list[Callable[[], Any]] = []
        self._lost: list[str] = []
        self._compare({**run.facts(), "models": len(models)})
        self._is_ours = OWN.format(run.state.process_index) in folder
        own = self._own()
        self._read_loaders(own["loaders"])
        self._read_models(models, kwargs)
        if run.optimizers:
            self._read_training(own["progress"])
        for number, item in enumerate(run.objects):
            self._steps.append(partial(item.load_state_dict, self._state(OBJECT.format(number))))
        if self._is_ours:  # at last, as nothing must draw from them any more
            self._steps.append(partial(process.set_generators, own["generators"], run.state.device))

    def __call__(self) -> None:
        """Load it."""
        for step in self._steps:
            step()
        if self._lost:
            reasons = "; ".join(self._lost)
            warnings.warn(f"{self._folder.path} cannot be continued bit for bit: {reasons}.", stacklevel=4)

    def _compare(self, ours: dict[str, Any]) -> None:
        """Refuse a checkpoint of other objects.  Of loaders there may be others, as scripts make them on the way."""
        theirs = self._facts
        if not all(isinstance(theirs.get(name), type(value)) for name, value in ours.items()):
            raise CheckpointError(f"{self._folder.path / MANIFEST} is damaged: it is not the manifest of a checkpoint.")
        compared = ["models", "objects"]
        if ours["optimizers"]:
            compared += ["optimizers", "schedulers"]
        for name in compared:
            if theirs[name] != ours[name]:
                there, here = _said(theirs[name], name), _said(ours[name], name)
                raise CheckpointError(
                    f"{self._folder.path} was saved with {there}, and here are {here}: prepare and register the same "
                    "ones in the same order."
                )
        for number, (there, here) in enumerate(zip(theirs["parameters"], ours["parameters"], strict=False)):
            if there != here:
                raise CheckpointError(
                    f"{self._folder.path / numbered(OPTIMIZER, number)} is of other parameters, or has them in another "
                    "order, than the optimizer here."
                )
        if ours["optimizers"] and ours["scaler"] != theirs["scaler"]:
            self._lost.append("it was saved with another mixed_precision")
        if ours["processes"] != theirs["processes"] and self._run.state.is_main_process:
            self._lost.append(f"it was saved by {theirs['processes']} processes, and there are {ours['processes']} now")

    def _own(self) -> dict[str, Any]:
        """What belongs to this process, or to the first one if there is nothing."""
        rank = self._run.state.process_index
        if not self._is_ours:
            self._lost.append(f"it has no random generators of process {rank}, which keep the states they are in")
        own: dict[str, Any] = self._state(OWN.format(rank if self._is_ours else 0))
        return own

    def _read_loaders(self, states: list[Any]) -> None:
        loaders = self._run.loaders
        if len(states) != len(loaders):
            if self._run.optimizers and any(state["position"] and not state["finished"] for state in states):
                self._lost.append(
                    f"it has places in loops over {len(states)} loaders, and here are {len(loaders)}, which begin anew"
                )
            return
        for loader, state in zip(loaders, states, strict=True):
            self._steps.append(partial(self._load_loader, loader, state))

    def _load_loader(self, loader: PreparedLoader, state: Any) -> None:
        try:
            loader.load_state_dict(state)
        except ValueError as error:
            if self._facts["processes"] != self._run.state.num_processes:
                self._lost.append(f"a loop over a loader begins anew, as {error}".rstrip("."))
                return
            raise CheckpointError(f"{self._folder.path} does not fit a loader: {error}") from None

    def _read_models(self, models: list[nn.Module], kwargs: dict[str, Any]) -> None:
        for number, model in enumerate(models):
            safe, plain = numbered(SAFE_NAME, number), numbered(NAME, number)
            path = self._folder.file(plain if plain in self._folder else safe)
            self._steps.append(Loading(model, read_weights(path), path, **kwargs))
        name = BUFFERS.format(self._run.state.process_index)
        if name in self._folder:
            self._steps.append(partial(process.set_buffers, self._run.models, self._state(name)))

    def _read_training(self, progress: dict[str, Any]) -> None:
        run = self._run
        for number, optimizer in enumerate(run.optimizers):
            path = self._folder.file(numbered(OPTIMIZER, number))
            state = read_state(path)
            sizes = [len(group["params"]) for group in state["param_groups"]]
            if sizes != [len(group["params"]) for group in optimizer.param_groups]:
                raise CheckpointError(f"{path} is of other groups of parameters than the optimizer here.")
            self._steps.append(partial(_load_optimizer, optimizer, state))
        for number, scheduler in enumerate(run.schedulers):
            self._steps.append(partial(scheduler.load_state_dict, self._state(numbered(SCHEDULER, number))))
        if run.scaler is not None and self._facts["scaler"]:
            self._steps.append(partial(run.scaler.load_state_dict, self._state(SCALER)))
        self._steps.append(self._gradients())
        self._steps.append(partial(process.set_progress, progress, run.gradient_state, run.models, run.optimizers))

    def _gradients(self) -> Callable[[], None]:
        """This process's gradients or, where it has none as there were other processes, the average of theirs."""
        ranks = range(self._facts["processes"])
        processes = 1
        if self._is_ours and len(ranks) == self._run.state.num_processes:
            ranks = range(self._run.state.process_index, self._run.state.process_index + 1)
        else:
            processes = sum(OWN.format(rank) in self._folder for rank in ranks)
        names = [GRADIENTS.format(rank) for rank in ranks]
        saved = [read_state(self._folder.file(name)) for name in names if name in self._folder]
        return partial(process.set_gradients, self._run.optimizers, saved, processes)

    def _state(self, name: str) -> Any:
        return copy.deepcopy(read_state(self._folder.file(name)))  # out of the pages of the file


def _said(found: Any, what: str) -> str:
    if isinstance(found, int):
        return f"{found} {what if found != 1 else what[:-1]}"
    return f"the {what} {', '.join(found) or '(none)'}"


def _load_optimizer(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    numbers = [number for group in saved["param_groups"] for number in group["params"]]
    parameters = dict(zip(numbers, parameters_of(optimizer), strict=True))
    states = {}
    for number, state in saved["state"].items():
        parameter = parameters.get(number)
        live = None if parameter is None else optimizer.state.get(parameter)
        states[number] = in_memory(state, live, parameter is not None and parameter.device.type != "cpu")
    rest = {name: in_memory(value) for name, value in saved.items() if name != "state"}
    optimizer.load_state_dict({"state": states, **rest})
