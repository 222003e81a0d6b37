"""Chooses what is prepared, and which evaluation loops are shared out."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from functools import cached_property

from accelift_codemod.batches.share_lengths import ShareLengths
from accelift_codemod.blueprint import Blueprint, Local
from accelift_codemod.blueprint.strangers import stranger
from accelift_codemod.facts import BatchLoop, Role, Value, hooks, position
from accelift_codemod.facts.contents import inside
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.objects import Optimizer
from accelift_codemod.facts.scopes import MARK
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Key, key, views
from accelift_codemod.measured.cuts import Cut, NoCut, find_cut
from accelift_codemod.reasons import refuse


def choose(blueprint: Blueprint) -> list[tuple[Value, Role]]:
    """The objects to prepare; notes in the blueprint what becomes of the evaluation loops.

    Raises:
        Refused: the script is left alone.
    """
    choice = _Choice(blueprint)
    optimizers = choice.optimizers()
    models = choice.models(optimizers)
    loaders = choice.loaders()
    return [
        *((m, Role.MODEL) for m in models),
        *((o, Role.OPTIMIZER) for o in optimizers),
        *((v, Role.LOADER) for v in loaders),
    ]


_CALLS = 4  # from a loop to the function that makes an optimizer
# Methods of the optimizer that Accelerate's prepare returns.
_WRAPPED = frozenset("step zero_grad state_dict load_state_dict add_param_group train eval".split())


class _Choice:
    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.facts = blueprint.facts
        self.resolver = blueprint.facts.resolver
        self.index = blueprint.facts.index

    def _is_of_batch(self, call: ast.Call, updated: ast.expr) -> bool:
        """Whether an optimizer is made for each batch: in a loop over batches, or, with what it updates, in a function
        that such a loop calls."""
        home = self.index.function(call)
        bindings = [b for n in walk(updated) if isinstance(n, ast.Name) for b in self.resolver.bindings(n)]
        anew = all(b.how is not How.PARAMETER and self.index.function(b.node) is home for b in bindings)
        return self._runs_for_batches(call, _CALLS if anew else 0)

    def _runs_for_batches(self, node: ast.AST, steps: int) -> bool:
        batches = {loop.node for loop in self.facts.loops.batch_loops}
        if not batches.isdisjoint(self.index.enclosing_loops(node)):
            return True
        function = self.index.function(node) if steps else None
        sites = self.resolver.sites(function) if isinstance(function, FUNCTIONS) else []
        return any(self._runs_for_batches(site, steps - 1) for site in sites)

    def optimizers(self) -> list[Value]:
        found = []
        for optimizer in self.facts.objects.optimizers:
            if not self.facts.runs(optimizer.call) or self._is_never_named(optimizer.call):
                continue
            line = optimizer.call.lineno
            if optimizer.loose:
                text = self.facts.segment(optimizer.loose[0])
                if self._is_of_batch(optimizer.call, optimizer.loose[0]):
                    raise refuse(
                        "DDP-FREEPARAM",
                        line,
                        f"the optimizer updates `{text}`, which each batch has anew: the gradient of a mean loss is "
                        "then one over the samples of a process's share, and its steps are larger",
                        f"sum the loss over the samples, and change `{text}` by what torch.autograd.grad gives",
                    )
                raise refuse(
                    "DDP-FREEPARAM",
                    line,
                    f"the optimizer updates `{text}`, which belongs to no module: its gradient would not be averaged",
                    "make it an nn.Parameter of a module",
                )
            for model in optimizer.models:
                owns = self.resolver.method(model.declaration, "parameters") is not None  # and not what it keeps
                if model.role is Role.OBJECT and owns and self.resolver.is_plain(model.declaration):
                    raise refuse(
                        "DDP-FREEPARAM",
                        line,
                        f"the optimizer updates the parameters of `{self.facts.segment(model.origin)}`, which is no "
                        "module: it cannot be prepared, and their gradients would not be averaged",
                        "derive its class from nn.Module",
                    )
            if not optimizer.models or optimizer.unknown:
                undefined = next(filter(None, map(self.resolver.undefined, optimizer.call.args)), "")
                if undefined:
                    told = f"the optimizer is given `{undefined}`, which this file never defines"
                    raise refuse("OPT-UNKNOWN", line, told, "correct the name")
                raise refuse(
                    "OPT-UNKNOWN",
                    line,
                    f"it cannot be told whose parameters `{self.facts.segment(optimizer.call.func)}(...)` updates",
                    "pass it `model.parameters()` of a model that this file can see",
                )
            self._closures(optimizer)
            self._own_methods(optimizer)
            found.append(optimizer.value)
        unknown = stranger(self.facts) if found else None
        if unknown is not None:
            step, of = unknown
            raise refuse(
                "OPT-UNKNOWN",
                step.lineno,
                f"it cannot be told whose parameters `{self.facts.short(of)}` updates, of which this is a step: their "
                "gradients may not be averaged",
                "make a torch.optim optimizer of `model.parameters()` of a model that this file can see",
            )
        if not found:
            raise refuse(
                "OPT-UNKNOWN",
                self.facts.loops.backwards[0].lineno,
                "gradients are computed, but no torch.optim optimizer applies them",
                "use an optimizer, or convert it by hand (updates outside an optimizer are not averaged)",
            )
        return found

    def _is_never_named(self, node: ast.AST) -> bool:
        """Whether a node stands in a method that nothing in the program reads: one that only others would call."""
        method = self.index.function(node)
        if method is None or not isinstance(self.index.parents.get(method), ast.ClassDef):
            return False
        name = method.name.partition("@")[0]  # of a method that is called by `super().fit()`
        return not name.startswith("__") and name not in self.facts.written.attributes

    @cached_property
    def _steps(self) -> dict[ast.AST, list[ast.Call]]:
        """The calls of `step`, by where what they may be of is made."""
        found: dict[ast.AST, list[ast.Call]] = {}
        for call in self.index.methods.get("step", []):
            for origin in {v.origin for v in self.resolver.values(call.func.value)}:  # type: ignore[attr-defined]
                found.setdefault(origin, []).append(call)
        return found

    def _closures(self, optimizer: Optimizer) -> None:
        """Refuse an optimizer that steps by closures, where their loss would not be that of the whole batch.

        The bundled runtime sees to that for its prepared optimizers, whose closures compute gradients through it.
        """
        steps = self._steps.get(optimizer.call, [])
        closures = [c for call in steps if (c := self.resolver.argument(call, 0, "closure")) is not None]
        if optimizer.is_lbfgs and len(closures) < max(len(steps), 1):
            why = "its steps cannot be found"
        elif closures and self.blueprint.options.target != "runtime":
            why = "Accelerate's optimizers keep what it returns, the loss of one process, to themselves"
        elif closures and self.facts.processes.managed:
            why = "each process decides by the loss of its own samples"
        elif any(not self._computes(closure) for closure in closures):
            why = "it is no function of this file that computes the gradients"
        else:
            return
        raise refuse(
            "BWD-CLOSURE",
            optimizer.call.lineno,
            f"the optimizer steps by a closure, and {why}",
            "convert it by hand, returning the reduced loss from the closure",
        )

    def _own_methods(self, optimizer: Optimizer) -> None:
        """Refuse an optimizer whose class has methods of its own that the training runs, where prepare would hide them.

        The bundled runtime gives back the same object.
        """
        cls = optimizer.value.declaration
        if self.blueprint.options.target == "runtime" or not isinstance(cls, ast.ClassDef):
            return
        for call in self.index.calls:
            func = call.func if isinstance(call.func, ast.Attribute) and call.func.attr not in _WRAPPED else None
            if func is None or self.resolver.method(cls, func.attr) is None or not self.facts.runs(call):
                continue
            if any(v.origin is optimizer.call for v in self.resolver.values(func.value)):
                raise refuse(
                    "OPT-UNKNOWN",
                    call.lineno,
                    f"the optimizer is stepped by {func.attr}() of its class {cls.name}, which the optimizer that "
                    "Accelerate prepares does not have",
                    "convert with --target runtime",
                )

    def _computes(self, closure: ast.expr) -> bool:
        """Whether an expression is one function of the script, in which a backward pass runs."""
        values = self.resolver.values(closure)
        functions = {v.declaration for v in values if v.role is Role.FUNCTION}
        return (
            isinstance(closure, ast.Name)
            and len(values) == len(functions) == 1
            and any(self.index.function(call) in functions for call in self.facts.loops.backwards)
        )

    def models(self, optimizers: list[Value]) -> list[Value]:
        found: dict[Key, Value] = {}
        chosen = set(optimizers)
        for optimizer in self.facts.objects.optimizers:
            if optimizer.value in chosen:
                for model in optimizer.models:
                    if isinstance(model.origin, ast.ClassDef):
                        raise refuse(
                            "LOOP-IN-CLASS",
                            optimizer.call.lineno,
                            f"the class {model.name} makes its own optimizer, and what it trains cannot be followed",
                            "make the optimizer outside the class, or convert it by hand",
                        )
                    found.setdefault(key(model), model)
        if self.facts.processes.managed:
            self._all_wrapped(found)
        trained = {model.origin for model in found.values()}
        for loop in self.blueprint.train_loops:
            self._has_an_optimizer(loop, trained)
        return list(found.values())

    def _has_an_optimizer(self, loop: BatchLoop, trained: set[ast.AST]) -> None:
        """Refuse a script with a loop that trains other networks than those which optimizers update."""
        functions = {f for s in loop.body for f in self.blueprint.timeline.calls_into(s)}
        parts = (*loop.body, *functions)
        read = (n for part in parts for n in walk(part) if isinstance(n, (ast.Name, ast.Attribute, ast.Subscript)))
        if any(v.origin in trained for node in read for v in inside(self.resolver.values(node))):
            return
        calls = (c for part in parts for c in self.facts.loops.own_calls(part))
        run = [model for call in calls for model in self.facts.objects.models(call.func)]
        itself = next((m for m in map(self.resolver.itself, run) if m.origin in trained), None)
        if itself is not None:
            raise refuse(
                "LOOP-IN-CLASS",
                loop.node.lineno,  # type: ignore[union-attr]
                f"the network {itself.name} trains itself, in a method that wraps it, and is run and trained here, too",
                "train it in one place, in a function that takes model, optimizer and loaders",
            )
        if run:
            raise refuse(
                "OPT-UNKNOWN",
                loop.node.lineno,  # type: ignore[union-attr]
                f"no torch.optim optimizer updates what this loop trains, a {run[0].name}",
                "use an optimizer, or convert it by hand (updates outside an optimizer are not averaged)",
            )

    def _all_wrapped(self, models: dict[Key, Value]) -> None:
        """Refuse a script that distributes itself and trains a model whose gradients it does not average."""
        arguments = (self.resolver.argument(c, 0, "module") for c in self.facts.processes.wraps)
        wrapped = {key(v) for a in arguments for v in self.resolver.values(a)}
        for one, model in models.items():
            if one not in wrapped:
                raise refuse(
                    "ALREADY-DISTRIBUTED",
                    getattr(model.origin, "lineno", 0),
                    f"trains {model.name} without DistributedDataParallel, and other models with it",
                    "convert it by hand",
                )

    def loaders(self) -> list[Value]:
        """Loaders to prepare: those that train, and those of evaluation loops that can gather.

        None of a script that distributes itself: it deals the samples by its own samplers, which stay.
        """
        blueprint = self.blueprint
        if self.facts.processes.managed:
            return []
        self._looped = {key(v) for loop in (*blueprint.train_loops, *blueprint.eval_loops) for v in loop.loaders}
        chosen: dict[Key, Value] = {}
        for loop in blueprint.train_loops:
            for value in loop.loaders:
                chosen.setdefault(self._one(value), value)
        training = set(chosen)
        dealt = {loop: any(self._one(v) in training for v in loop.loaders) for loop in blueprint.eval_loops}
        cuts = {loop: self._cut(loop, dealt[loop]) for loop in blueprint.eval_loops}
        wanted: dict[Key, Value] = {}
        for loop in blueprint.eval_loops:
            for value in loop.loaders:
                wanted.setdefault(self._one(value), value)
        unplaced = {self._one(value): why for value, why in blueprint.unplaced.items()}
        spoiled = set(unplaced)
        changed = True
        while changed:  # loops that share a loader, or loaders that share a loop, are decided together
            changed = False
            for loop, cut in cuts.items():
                keys = {self._one(v) for v in loop.loaders}
                bad = isinstance(cut, NoCut) or bool(keys & spoiled)
                if bad and not keys - training <= spoiled:
                    spoiled |= keys - training
                    changed = True
        for k, value in wanted.items():
            if k not in spoiled:
                chosen.setdefault(k, value)
        for loop, cut in cuts.items():
            shared = [self._one(v) in chosen for v in loop.loaders]
            if isinstance(cut, Cut) and all(shared):
                blueprint.cuts[loop] = cut
            elif any(shared):
                if not (isinstance(cut, NoCut) and cut.needless):
                    alone = Local(cut.reason) if isinstance(cut, NoCut) else self._mixed(loop, chosen, cuts)
                    blueprint.local_loops[loop] = alone
            else:
                without = next((unplaced[one] for v in loop.loaders if (one := self._one(v)) in unplaced), None)
                reason = (
                    cut.reason if isinstance(cut, NoCut) else without or "another loop over its loader cannot gather"
                )
                if not (isinstance(cut, NoCut) and cut.needless):
                    blueprint.replicated[loop] = reason
        return list(chosen.values())

    def _mixed(self, loop: BatchLoop, chosen: Collection[Key], cuts: Mapping[BatchLoop, Cut | NoCut]) -> Local:
        """Why a loop that could gather does not: it also goes over data of which every process has all."""
        whole = next(v for v in loop.loaders if self._one(v) not in chosen)
        shares = (other for other, cut in cuts.items() if isinstance(cut, NoCut) and whole in other.loaders)
        other = next((o for o in shares if o is not loop), None)
        made = f"in line {whole.origin.lineno}" if isinstance(whole.origin, ast.expr) else "elsewhere"
        line = position(self.index.statement(other.node))[0] if other is not None else 0
        why = f", as the loop of line {line} cannot gather" if line else ""
        return Local(
            f"it also goes over the loader made {made}, of which every process has all{why}",
            "prepare that loader, too, and gather what they are computed from; or use a loop of its own for it",
        )

    def _cut(self, loop: BatchLoop, dealt: bool) -> Cut | NoCut:
        if not self.blueprint.options.chooses("METRIC"):
            return NoCut("METRIC is left out")
        spared = self._spared(loop)
        if spared:
            return NoCut(f"{spared}() is used by code that is not converted in this way, too, and stays as it is")
        other = next((v.origin for v in self.facts.loops.others(loop) if isinstance(v.origin, ast.expr)), None)
        if other is not None:  # of which every process has all, wherever its results are gathered
            return NoCut(f"`{self.facts.short(other)}` may take the place of its loader, and is not known to be one")
        hook = next((call for call in self._hooks if self._runs_with(loop, call)), None)
        if hook is not None:
            return NoCut(f"a hook keeps what a network computes here (line {hook.lineno}), and others read that")
        whole = self.blueprint.options.batch != "global"  # then several batches would be gathered at once
        composers = map(self.facts.objects.composer, loop.loaders) if whole else ()
        composer = next((given for given in composers if given is not None), None)
        if composer is not None:
            return NoCut(f"`{self.facts.short(composer)}` says which samples are in a batch together")
        options = self.blueprint.options
        weighed = options.target == "runtime" and options.batch == "global"  # else shares may have samples twice
        return find_cut(self.facts, loop, ShareLengths(self.blueprint, loop), dealt, means=weighed)

    def _spared(self, loop: BatchLoop) -> str:
        """The function around a loop that has to stay as it is, as its file calls it; empty if there is none."""
        around = (node for node in self.index.ancestors(loop.node) if isinstance(node, FUNCTIONS))
        return next((f.name.rpartition(MARK)[2] for f in around if f.name in self.facts.spared), "")

    @cached_property
    def _hooks(self) -> list[ast.Call]:
        """Where hooks are registered that keep something of a batch which is not only read in training."""
        trains = self.blueprint.in_training
        found = [one for one in hooks.kept(self.facts) if not trains.issuperset(hooks.reads(self.facts, one))]
        return list(dict.fromkeys(one.call for one in found))

    def _runs_with(self, loop: BatchLoop, hook: ast.Call) -> bool:
        """Whether a loop runs a network when a hook may have been registered."""
        inside = [*loop.body, *(f for s in loop.body for f in self.blueprint.timeline.calls_into(s))]
        if not any(isinstance(n, ast.Call) and self.facts.objects.models(n.func) for s in inside for n in walk(s)):
            return False
        around = self.index.enclosing_loops(hook)
        again = any(outer in around for outer in (loop.node, *self.index.enclosing_loops(loop.node)))
        same = self.index.function(hook) is self.index.function(loop.node)
        return again or not same or position(hook) < position(loop.node)

    def _one(self, value: Value) -> Key:
        """The identity of a loader: that inside the function which makes it, if there is a loop over it there, too."""
        return next(one for one in reversed([*views(value)]) if one in self._looped)
