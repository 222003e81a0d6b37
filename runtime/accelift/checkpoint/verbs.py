"""The verbs of the Accelerator that save and load."""

from __future__ import annotations

import os
import warnings
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from torch import nn
from torch.utils.hooks import RemovableHandle

from accelift.dataclasses import ProjectConfiguration
from accelift.gradients import GradientState
from accelift.registry import Registry
from accelift.state import PartialState

if TYPE_CHECKING:
    from accelift.checkpoint.run import Run
    from accelift.precision import LossScaler

SaveHook = Callable[[list[nn.Module], list[dict[str, Any]], str], None]
LoadHook = Callable[[list[nn.Module], str], None]


class Registered:
    """What a script has registered for its checkpoints.  It stays with this process: a copy is empty."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.before_saving: OrderedDict[int, SaveHook] = OrderedDict()
        self.before_loading: OrderedDict[int, LoadHook] = OrderedDict()

    def __reduce__(self) -> Any:
        return Registered, ()


class CheckpointVerbs:
    """What an Accelerator saves and loads."""

    state: PartialState
    gradient_state: GradientState
    registry: Registry
    project_configuration: ProjectConfiguration
    _scaler: LossScaler | None
    _registered: Registered

    @property
    def project_dir(self) -> str | None:
        """The folder of the project."""
        return self.project_configuration.project_dir

    @property
    def logging_dir(self) -> str | None:
        """The folder that trackers write to."""
        return self.project_configuration.logging_dir

    @property
    def save_iteration(self) -> int:
        """The number of the next checkpoint."""
        return self.project_configuration.iteration

    def register_for_checkpointing(self, *objects: Any) -> None:
        """Have :meth:`save_state` and :meth:`load_state` save and load objects, in the order in which they come here.

        Args:
            objects: what has ``state_dict()`` and ``load_state_dict(state)``.

        Raises:
            ValueError: naming the first one that lacks one of the two.
        """
        for item in objects:
            for method in ("state_dict", "load_state_dict"):
                if not callable(getattr(item, method, None)):
                    raise ValueError(
                        f"register_for_checkpointing cannot take a {type(item).__name__}, which has no {method}(); "
                        "give it objects that have state_dict() and load_state_dict(state)."
                    )
        self._registered.objects.extend(objects)

    def register_save_state_pre_hook(self, hook: SaveHook) -> RemovableHandle:
        """Have :meth:`save_state` call ``hook(models, weights, output_dir)`` before it writes, on every process.

        What the hook takes out of ``weights``, the state dicts of the models, is not written, and what it
        writes into ``output_dir`` becomes part of the checkpoint.

        Returns:
            What removes the hook again: ``handle.remove()``.
        """
        return _register(hook, self._registered.before_saving)

    def register_load_state_pre_hook(self, hook: LoadHook) -> RemovableHandle:
        """Have :meth:`load_state` call ``hook(models, input_dir)`` before it loads, on every process.

        What the hook takes out of ``models`` is not loaded.

        Returns:
            What removes the hook again: ``handle.remove()``.
        """
        return _register(hook, self._registered.before_loading)

    def save_state(
        self,
        output_dir: str | os.PathLike[str] | None = None,
        safe_serialization: bool = True,
        durable: bool = False,
    ) -> Path:
        """Save the whole state of the training run: models, optimizers, schedulers, loaders, random generators, ...

        Call it on every process.  The checkpoint is complete when it gets its name: whatever happens before
        leaves the last one as it was.

        Args:
            output_dir: the folder.  It may exist: a checkpoint in it is replaced, other files stay.  Not
                needed with ``automatic_checkpoint_naming``, where it is ``checkpoints/checkpoint_<number>``
                in the project's folder.
            safe_serialization: write weights as safetensors.
            durable: wait until all is on the disk, so that a power failure cannot take it either.

        Returns:
            The folder.

        Raises:
            OSError: on every process, if it cannot be written.
            RuntimeError: if another process failed, or does not come.
            ValueError: if there is no folder, a numbered checkpoint is there already, or some state has
                objects that cannot be loaded without running foreign code.
        """
        from accelift.checkpoint.naming import Numbered
        from accelift.checkpoint.saving import Saving

        project = self.project_configuration
        numbered = Numbered(project.project_dir) if project.automatic_checkpoint_naming else None
        if numbered is not None:
            target = numbered.path(project.iteration)
        elif output_dir is None:
            raise ValueError("save_state needs a folder: give it output_dir, or use automatic_checkpoint_naming.")
        else:
            target = Path(output_dir).expanduser()
        saving = Saving(
            self._run(),
            target,
            is_new=numbered is not None,
            each_node=project.save_on_each_node,
            safe=safe_serialization,
            durable=durable,
            hook=self._before_saving,
        )
        took_part = saving.save({"iteration": project.iteration})
        if not took_part:
            warnings.warn(_LATE.format(target), stacklevel=2)
        elif numbered is not None and project.total_limit is not None and saving.writes:
            numbered.keep(project.total_limit)
        project.iteration += 1
        return target

    def load_state(
        self,
        input_dir: str | os.PathLike[str] | None = None,
        load_kwargs: dict[str, Any] | None = None,
        **load_model_func_kwargs: Any,
    ) -> None:
        """Load what :meth:`save_state` has saved into what is prepared and registered now.

        Everything is read and compared before anything is changed.  If nothing is trained, as no optimizer
        is prepared, only models, random generators and registered objects are loaded.

        Args:
            input_dir: the folder; by default, with ``automatic_checkpoint_naming``, the newest complete one.
            load_kwargs: not used; nothing but tensors and plain values is ever loaded.
            load_model_func_kwargs: arguments of the models' ``load_state_dict``, such as ``strict``.  A
                ``map_location`` is not used: all goes where it belongs.

        Raises:
            CheckpointError: a ``ValueError`` that names the file, if the checkpoint is not complete, damaged,
                foreign, or of other models, optimizers, schedulers or numbers of objects.
            RuntimeError: if random generators cannot be restored.
            ValueError: if there is no folder.
        """
        from accelift.checkpoint.folder import Folder
        from accelift.checkpoint.loading import Resuming
        from accelift.checkpoint.naming import Numbered

        project = self.project_configuration
        load_model_func_kwargs.pop("map_location", None)
        if input_dir is not None:
            path = Path(input_dir).expanduser()
        elif project.automatic_checkpoint_naming:
            path = Numbered(project.project_dir).newest()
        else:
            raise ValueError("load_state needs a folder: give it input_dir, or use automatic_checkpoint_naming.")
        folder = Folder(path)
        models = self.registry.models.all()
        for hook in self._registered.before_loading.values():
            hook(models, str(path))
        Resuming(self._run(), models, folder, **load_model_func_kwargs)()
        following = [project.iteration, folder.facts["iteration"] + 1]
        if project.automatic_checkpoint_naming:
            following += [number + 1 for number in Numbered(project.project_dir).numbers()]
        project.iteration = max(following)

    def save_model(
        self,
        model: nn.Module,
        save_directory: str | os.PathLike[str],
        max_shard_size: int | str = "10GB",
        safe_serialization: bool = True,
    ) -> None:
        """Write the weights of a model into a folder, on the main process, in a layout that other programs read.

        Args:
            model: the model, prepared or not; its names are those of the author's model.
            save_directory: the folder; other files in it stay.
            max_shard_size: how large a file may become, in bytes or as a text like ``"5GB"``; a larger
                tensor has a file of its own.
            safe_serialization: write safetensors, and not what ``torch.save`` writes.

        Raises:
            OSError: naming the folder, if it cannot be written.
            TypeError: if it is not a model.
            ValueError: if the model is on the meta device or does not fit the layout, or for another size.
        """
        from accelift.arguments import check_type
        from accelift.checkpoint.export import save_model

        check_type("save_model", model, nn.Module)
        if self._writes():
            save_model(model, save_directory, max_shard_size, safe_serialization)

    def save(self, obj: Any, f: str | os.PathLike[str] | IO[bytes], safe_serialization: bool = False) -> None:
        """See :func:`accelift.checkpoint.save`."""
        from accelift.checkpoint.files import save

        save(obj, f, self.project_configuration.save_on_each_node, safe_serialization)

    def _writes(self) -> bool:
        """Whether this process writes what all of them have."""
        each_node = self.project_configuration.save_on_each_node
        return self.state.is_local_main_process if each_node else self.state.is_main_process

    def _before_saving(self, weights: list[dict[str, Any]], folder: Path) -> None:
        models = self.registry.models.all()
        for hook in self._registered.before_saving.values():
            hook(models, weights, str(folder))

    def _run(self) -> Run:
        from accelift.checkpoint.run import Run

        registry = self.registry
        return Run(
            self.state,
            self.gradient_state,
            registry.models.all(),
            registry.optimizers.all(),
            registry.schedulers.all(),
            registry.loaders.all(),
            None if self._scaler is None else self._scaler.grad_scaler,
            self._registered.objects,
        )


_LATE = (
    "the main process has saved {} without this process, which came too late: its random generators and places in "
    "loops are not in it; call save_state on every process, at the same point of the script."
)


def _register(hook: Callable[..., None], hooks: OrderedDict[int, Any]) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle
