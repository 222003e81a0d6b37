"""Several processes, each with a copy of the model: torch's DistributedDataParallel."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields, is_dataclass
from functools import wraps
from types import MethodType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from accelift.collective import Collective
from accelift.dataclasses import DistributedDataParallelKwargs
from accelift.diagnosis.checks import agree_on, parts_of, parts_of_all
from accelift.registry import Living
from accelift.state import PartialState
from accelift.strategy.gradients import UncoveredParameters, average_gradients, start_as_on_main_process
from accelift.strategy.hooks import register_comm_hook


class DistributedModel(DistributedDataParallel):
    """DistributedDataParallel that can be used like the model in it.

    Names that are not DDP's own are the model's: ``model.config``, ``model.scale = 2``.  What a
    method of the author's returns goes through DDP's forward if it carries gradients, so that its
    backward averages them like that of a call of the model.
    """

    _known: tuple[nn.Parameter, ...] = ()  # those that DDP was made for
    _frozen: tuple[nn.Parameter, ...] = ()
    _averages = True  # whether the last forward was one whose gradients are averaged
    _awaits_backward = False  # whether it has had no backward yet
    _told_to_expect = False  # whether DDP expects a backward without a forward

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            model = self.__dict__.get("_modules", {}).get("module")
            if model is None:
                raise
        value = getattr(model, name)
        if isinstance(value, MethodType) and value.__self__ is model and _is_authors(value):
            return self._through_forward(value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if name in own and type(value) is bool:
            own[name] = value  # as DDP does in every forward; nn.Module would look in many places first
            return
        # What DDP sets itself it sets in its constructor, or names with an underscore.
        ours = name.startswith("_") or "_ready" not in own or name in own
        if ours or name == "module" or hasattr(type(self), name):
            super().__setattr__(name, value)
        else:
            setattr(self.module, name, value)

    # What Python looks up on the class, for containers: ``model[0]``, ``for layer in model``.

    def __getitem__(self, key: Any) -> Any:
        return self.module[key]

    def __len__(self) -> int:
        return len(self.module)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.module)

    def __contains__(self, key: Any) -> bool:
        return key in self.module

    def __bool__(self) -> bool:
        return True  # not by its length, which most models lack

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """That of the model, without the ``module.`` that DDP puts before its keys."""
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load what :meth:`state_dict` gives."""
        return self.module.load_state_dict(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[no-untyped-call]
        del state["_ready"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._ready = True

    def _through_forward(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            if not _requires_grad(result):
                return result
            self.__dict__["_run_ddp_forward"] = lambda _: result  # in the place of the model's forward
            try:
                return self(None)
            finally:
                del self.__dict__["_run_ddp_forward"]

        return call

    def expect_gradients(self) -> None:
        """Let the next backward average gradients, even if there was one since the last forward.

        DDP by itself expects one backward for each forward, and would leave what a second one adds
        (``loss_a.backward(retain_graph=True); loss_b.backward()``) as it is on each process.  As with
        DDP, a forward under ``no_sync`` leaves its gradients there, wherever its backward is.
        """
        if not (self.require_backward_grad_sync and self._averages) or self.find_unused_parameters or self.static_graph:
            return
        if self._awaits_backward:
            self.__dict__["_awaits_backward"] = False  # DDP's forward has seen to it
            return
        self.reducer._rebuild_buckets()  # as in forward; not possible later
        self.reducer.prepare_for_backward([])
        self.__dict__["_told_to_expect"] = True

    @contextmanager
    def averaging(self) -> Iterator[None]:
        """A context whose backward averages gradients, and what ``no_sync`` has kept apart so far with them."""
        before = self.require_backward_grad_sync, self._averages
        self.require_backward_grad_sync = self._averages = True
        self._awaits_backward = False
        try:
            yield
        finally:
            self.require_backward_grad_sync, self._averages = before
        if self.find_unused_parameters or self.static_graph:  # where DDP cannot be told to expect it
            average_gradients([one for one in self.parameters() if one.requires_grad], self.process_group)

    def _pre_forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled():
            own = self.__dict__  # setting attributes of an nn.Module takes long
            own["_averages"] = own["_awaits_backward"] = averages = own["require_backward_grad_sync"]
            if self._told_to_expect and not averages:
                self.reducer._reset_state()  # or DDP would average what no_sync keeps apart
                own["_told_to_expect"] = False
        try:
            return super()._pre_forward(*inputs, **kwargs)  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            explanation = _of_missing_gradients(str(error), self.module)
            if explanation is None:
                raise
            raise RuntimeError(explanation) from None

    def _sync_buffers(self) -> None:
        # Private to DDP, in whose forward it is, and a collective operation also while a model is evaluated.
        if torch.compiler.is_compiling():
            super()._sync_buffers()  # type: ignore[no-untyped-call]
            return
        kind = type(self.module).__name__
        with Collective(f"the forward of {kind}", PartialState(), compared=not self._join_config.enable):
            super()._sync_buffers()  # type: ignore[no-untyped-call]

    def average_left_over(self) -> None:
        """Average the gradients if DDP could not, as backward did not reach every parameter.

        So it is where the loss uses only some of the outputs.  DDP would wait for the rest and
        raise an error in the next forward.  A collective operation where it does something.  Not
        with ``gradient_as_bucket_view``, where DDP has changed some of the gradients already.
        """
        if self.gradient_as_bucket_view:
            return
        try:
            self.reducer._check_reducer_finalized()
            return
        except RuntimeError:
            # What DDP has sent already may still be under way; gloo's barrier waits for that, and
            # nccl keeps the order.  A second average of those gradients changes nothing.
            if dist.get_backend(self.process_group) == "gloo":
                dist.barrier(self.process_group)
            self.reducer._reset_state()
        average_gradients([parameter for parameter in self.parameters() if parameter.requires_grad], self.process_group)

    def average_unfrozen(self) -> None:
        """Average the gradients of parameters that were frozen when DDP was made, which it knows nothing of."""
        unfrozen = [parameter for parameter in self._frozen if parameter.requires_grad]
        if unfrozen and self.require_backward_grad_sync:
            average_gradients(unfrozen, self.process_group)


class DataParallel:
    """Wraps models in :class:`DistributedModel`."""

    def __init__(self, kwargs: DistributedDataParallelKwargs) -> None:
        self._kwargs = kwargs
        # In the order in which they were made, which is the same on every process.
        self._wrapped: Living[DistributedModel] = Living()
        self._uncovered = UncoveredParameters()
        self._averaging = Collective("backward", PartialState(), computes=True)

    def __reduce__(self) -> Any:
        # What is wrapped stays with this process; datasets may carry the rest to their workers.
        return DataParallel, (self._kwargs,)

    def wrap(self, model: nn.Module, state: PartialState) -> nn.Module:
        """The model in DDP, or itself if there is nothing to train in it.

        Raises:
            ValueError: if the model is in a ``torch.nn.DataParallel``.
        """
        if isinstance(model, DistributedDataParallel):
            return model
        if isinstance(model, nn.DataParallel):
            raise ValueError(
                "the model is in a torch.nn.DataParallel, which is for one process with several "
                "GPUs; prepare the model without it."
            )
        if not any(parameter.requires_grad for parameter in model.parameters()):
            return model
        # DDP takes device_ids only for a model that is on one accelerator.
        on = {parameter.device for parameter in model.parameters()}
        ids = [state.device.index] if state.device.type != "cpu" and on == {state.device} else None
        kind = type(model).__name__
        with Collective("prepare", state, lambda: kind):
            agree_on(kind, parts_of(model), state)
            wrapped = DistributedModel(model, device_ids=ids, **self._kwargs.to_kwargs())
        register_comm_hook(wrapped, self._kwargs)
        wrapped._known = tuple(model.parameters())
        wrapped._frozen = tuple(p for p in wrapped._known if not p.requires_grad)
        _warn_of_hidden_names(wrapped, model, state)
        wrapped._ready = True
        self._wrapped.add(wrapped)
        self._uncovered.look_again()
        return wrapped

    def no_sync(self, model: nn.Module) -> AbstractContextManager[Any]:
        """DDP's ``no_sync``; without effect on other models."""
        return model.no_sync() if isinstance(model, DistributedDataParallel) else nullcontext()

    def trigger_sync(self, model: nn.Module) -> AbstractContextManager[None]:
        """See :meth:`DistributedModel.averaging`; without effect on other models."""
        return model.averaging() if isinstance(model, DistributedModel) else nullcontext()

    def backward(self, loss: Tensor, optimizers: Sequence[Optimizer] | None = None, **kwargs: Any) -> None:
        """``loss.backward``, after which the gradients of every wrapped model are averaged.

        With ``optimizers`` also those of their parameters that are in no wrapped model.
        """
        models = self._wrapped.all()
        averaged = joining = False
        for model in models:
            model.expect_gradients()
            averaged |= model.require_backward_grad_sync
            joining |= model._join_config.enable
        with self._operation(joining) if averaged else nullcontext():
            loss.backward(**kwargs)  # type: ignore[no-untyped-call]
            for model in models:
                model.average_left_over()
                if model._frozen:
                    model.average_unfrozen()
        if optimizers is not None:
            uncovered = self._uncovered.of(optimizers, [model._known for model in models])
            if uncovered:
                with Collective("backward", PartialState()):
                    average_gradients(uncovered)

    def _operation(self, joining: bool) -> Collective:
        """The backward of all processes."""
        # Processes whose data has ended early join in without a backward of their own.
        return Collective("backward", PartialState(), compared=False, computes=True) if joining else self._averaging

    def cover(self, optimizer: Optimizer) -> None:
        """Let the parameters of an optimizer that are in no wrapped model start equal on all processes."""
        parameters = self._uncovered.of([optimizer], [model._known for model in self._wrapped.all()])
        if parameters:
            state = PartialState()
            with Collective("prepare", state):
                agree_on("an optimizer", parts_of_all(parameters), state)
                start_as_on_main_process(parameters)

    def unwrap(self, model: nn.Module) -> nn.Module:
        """The model in DDP, or the model itself."""
        return model.module if isinstance(model, DistributedDataParallel) else model


def _is_authors(method: MethodType) -> bool:
    """Whether a method is the author's, not one of the layers that come with torch."""
    module = getattr(method.__func__, "__module__", None) or ""
    return module.split(".")[0] != "torch"


def _requires_grad(result: Any) -> bool:
    if isinstance(result, torch.Tensor):
        return result.requires_grad
    if isinstance(result, Mapping):
        return any(map(_requires_grad, result.values()))
    if isinstance(result, (tuple, list)):
        return any(map(_requires_grad, result))
    if is_dataclass(result) and not isinstance(result, type):
        return any(_requires_grad(getattr(result, field.name)) for field in fields(result))
    return False


def _of_missing_gradients(complaint: str, model: nn.Module) -> str | None:
    """What DDP says of a backward that did not reach every parameter, in a sentence with their names."""
    if "Expected to have finished reduction" not in complaint:
        return None
    told = re.search(r"did not receive grad for rank \d+: ([\d ]+)", complaint)
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    names = [trained[int(index)] for index in told[1].split()] if told else ["some parameters"]
    some = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return (
        f"{some} of {type(model).__name__} got no gradient in the last backward, so its gradients were not averaged; "
        "call accelerator.backward(loss), or give the Accelerator "
        "kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)]."
    )


def _warn_of_hidden_names(wrapped: DistributedModel, model: nn.Module, state: PartialState) -> None:
    """Tell which attributes of the model are out of reach, as DDP has others of that name."""
    ddps = vars(wrapped).keys() | vars(DistributedDataParallel).keys()
    models = vars(model).keys() | model._modules.keys() | model._parameters.keys()
    for kind in type(model).__mro__[: type(model).__mro__.index(nn.Module)]:
        models |= vars(kind).keys()
    # `device` is the same one, and `forward` is what DDP calls.
    common = (ddps & models) - vars(nn.Module()).keys() - vars(nn.Module).keys() - {"device"}
    hidden = sorted(name for name in common if not name.startswith("_"))
    if hidden and state.is_main_process:
        warnings.warn(
            f"{', '.join(hidden)} of {type(model).__name__} cannot be reached through the prepared "
            "model, where DistributedDataParallel has its own; use "
            f"accelerator.unwrap_model(model).{hidden[0]}.",
            stacklevel=5,
        )
