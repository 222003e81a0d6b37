"""Hands models, optimizers and loaders to `prepare`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from accelift_codemod.blueprint import Group, Item
from accelift_codemod.blueprint.containers import EACH
from accelift_codemod.chance.noise import DRAWING
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, position
from accelift_codemod.facts.freezing import settings
from accelift_codemod.facts.objects import Loader
from accelift_codemod.facts.values import key
from accelift_codemod.networks.lazy_layers import lazy_layer
from accelift_codemod.plan import Assumption, Edit, Finding, Need, Operation, Safety, Severity
from accelift_codemod.rules import Explained, Rule

_RULE = "PREPARE"
_LOADER = Assumption("a function of a library that is not known gives a torch DataLoader", Safety.UNSAFE)


def gives_loader(name: str) -> str:
    """What is taken for granted of a library function."""
    return f"{name} gives a torch DataLoader"


class Prepare(Rule):
    """Rebinds every trained model, its optimizer and the loaders to what `accelerator.prepare` returns.

    The call stands after the last statement that makes or changes one of them (loading a checkpoint, initialising
    weights, making the scheduler) and before the first loop that uses one. Learning-rate schedulers are not prepared:
    the global batch is kept, so they step as often as before. Frozen networks are not prepared either. A loader whose
    batches the script uses partly on the CPU keeps the author's own moves: it is prepared without device placement.
    """

    code = _RULE
    name = "prepare the objects that train"
    required = True
    always = True
    before = """\
model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
"""
    after = """\
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
"""
    assumptions = (_LOADER,)
    findings = (
        Explained(
            "DATA-TAIL",
            Severity.WARNING,
            "Accelerate fills up the last batch",
            "Accelerate fills the last, smaller batch of an epoch up with samples from its start, so that every "
            "process has as many; the gradient of that step is not the one a single process computes. Give the loader "
            "drop_last=True, or convert for the bundled runtime, which deals the last batch as it is.",
        ),
        Explained(
            "DATA-ORDER",
            Severity.NOTE,
            "Accelerate shuffles by a generator of its own",
            "A loader that shuffles without a generator draws its order from torch's global one. On several processes "
            "Accelerate gives it a generator of its own: the same samples in every epoch, in another order than one "
            "process has them in. The bundled runtime keeps the order.",
        ),
        Explained(
            "DDP-UNFREEZE",
            Severity.ERROR,
            "parameters are unfrozen after prepare",
            "DistributedDataParallel averages the gradients of the parameters that are trained when Accelerate wraps "
            "the model. Those that are unfrozen later are trained on each process's own data. The bundled runtime "
            "averages them, too.",
        ),
        Explained(
            "DATA-BUCKET",
            Severity.WARNING,
            "a batch sampler of the script's own",
            "A batch sampler of the script's own decides which samples make a batch. Accelerate cuts batches of "
            "varying size in a way that loses samples; the bundled runtime deals each batch whole in its order.",
        ),
        Explained(
            "MODEL-LAZY",
            Severity.ERROR,
            "layers without weights yet",
            "Lazy layers (`nn.LazyLinear`) get their weights with the first batch. DistributedDataParallel takes no "
            "model of which some have none yet: on several processes prepare raises an error. One process trains as "
            "before.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        for group in draft.blueprint.groups:
            yield from self._group(draft, group)
        yield from self._lazy(draft)
        if not draft.runtime:
            yield from self._accelerate_limits(draft)
            yield from self._unfrozen(draft)

    def _group(self, draft: Draft, group: Group) -> Iterator[Edit]:
        if isinstance(group.anchor, ast.Call):
            reason = "it is in no variable: the loop must get the prepared one"
            yield self._on_the_spot(draft, group.anchor, group.items[0], reason)
            return
        if (source := _source(group)) is not None:
            yield self._on_the_spot(draft, source, group.items[0], "every later use must see the prepared object")
            return
        together: list[Item] = []
        apart: list[Item] = []
        for item in group.items:
            placed = draft.blueprint.placed.get(key(item.value), True)
            (together if placed else apart).append(item)
        lines = []
        places = dict.fromkeys(place for i in together for place in i.places)
        names = ", ".join(place for place in places if not place.endswith(EACH))
        if names:
            targets = {place: i.target or place for i in together for place in i.places}
            given = ", ".join(targets[place] for place in places if not place.endswith(EACH))
            lines.append(f"{given} = {{accelerator}}.prepare({names})")
        lines += (_each(place, "prepare({})") for place in places if place.endswith(EACH))
        for place, item in {place: i for i in sorted(apart, key=_written) for place in i.places}.items():
            call = _call(draft, item)
            whole = f"{place} = {{accelerator}}.{call.format(place)}"
            lines.append(_each(place, call) if place.endswith(EACH) else whole)
        kinds = ", ".join(dict.fromkeys(i.kind.value for i in group.items))
        yield draft.edit(
            _RULE,
            group.anchor,
            Operation.BEFORE if group.before else Operation.AFTER,
            f"every later use of the {kinds} must see the prepared object",
            "\n".join(lines),
            need=Need.STRONG,
            assumes=self._assumption(draft, group.items),
        )

    def _assumption(self, draft: Draft, items: tuple[Item, ...]) -> Assumption | None:
        """What is taken for granted if one of the objects is only said to be a loader."""
        assumed = next((i.value.name for i in items if i.value.name in draft.facts.assumed), "")
        return replace(_LOADER, text=gives_loader(assumed)) if assumed else None

    def _on_the_spot(self, draft: Draft, node: ast.expr, item: Item, reason: str) -> Edit:
        code = f"{{accelerator}}.{_call(draft, item)}"
        assumes = self._assumption(draft, (item,))
        return draft.edit(_RULE, node, Operation.SURROUND, reason, code, need=Need.STRONG, assumes=assumes)

    def _lazy(self, draft: Draft) -> Iterator[Finding]:
        layers = (lazy_layer(draft, i.value) for i in draft.blueprint.items.values() if i.kind is Role.MODEL)
        for layer in dict.fromkeys(layer for layer in layers if layer is not None):
            yield draft.finding(
                "MODEL-LAZY",
                Severity.ERROR,
                layer,
                f"`{draft.facts.segment(layer)}` has no weights before the first batch, and a model with such layers "
                "cannot be prepared on several processes",
                "write its input size, or run the model on one batch before it is prepared",
            )

    def _accelerate_limits(self, draft: Draft) -> Iterator[Finding]:
        for item in draft.blueprint.items.values():
            if item.kind is not Role.LOADER:
                continue
            loader = draft.facts.objects.loader(item.value)
            line = getattr(item.value.origin, "lineno", 0)
            trains = any(draft.blueprint.item(v) is item for loop in draft.blueprint.train_loops for v in loop.loaders)
            drops = loader.arguments.get("drop_last")
            if trains and drops is None and "batch_sampler" not in loader.arguments:
                yield draft.finding(
                    "DATA-TAIL",
                    Severity.WARNING,
                    line,
                    f"{_called(item)} may end with a smaller batch, which Accelerate fills up with repeated samples",
                    "add drop_last=True, or convert with --target runtime",
                )
            if trains and self._shuffles_globally(draft, loader):
                yield draft.finding(
                    "DATA-ORDER",
                    Severity.NOTE,
                    line,
                    f"on several processes Accelerate shuffles {_called(item)} by a generator of its own: they get the "
                    "samples in another order than one process",
                    "give it generator=torch.Generator().manual_seed(...), or convert with --target runtime",
                )
            if "batch_sampler" in loader.arguments:
                yield draft.finding(
                    "DATA-BUCKET",
                    Severity.WARNING,
                    line,
                    f"{_called(item)} has a batch sampler of its own, whose batches Accelerate may cut wrongly",
                    "check that every sample is dealt, or convert with --target runtime",
                )

    def _shuffles_globally(self, draft: Draft, loader: Loader) -> bool:
        """Whether a loader may put its samples in order by torch's global generator."""
        if "batch_sampler" in loader.arguments:
            return False
        shuffle, sampler = loader.arguments.get("shuffle"), loader.arguments.get("sampler")
        if sampler is not None:
            drawn = [v for v in draft.facts.resolver.values(sampler) if v.name in DRAWING]
            made = [v.origin for v in drawn if isinstance(v.origin, ast.Call)]
            return any(all(k.arg not in ("generator", None) for k in call.keywords) for call in made)
        told = "generator" in loader.arguments or shuffle is None
        return not told and not (isinstance(shuffle, ast.Constant) and not shuffle.value)

    def _unfrozen(self, draft: Draft) -> Iterator[Finding]:
        """Parameters that are frozen when DistributedDataParallel wraps their model, and trained later."""
        prepared = draft.blueprint.prepared_models
        models = [item.value for item in draft.blueprint.items.values() if item.kind is Role.MODEL]
        found = [s for s in settings(draft.facts.resolver) if draft.facts.runs(s.node)]
        objects = draft.facts.objects
        parts = {s for s in found if any(map(objects.is_trained_part, objects.models(s.root)))}
        found = [s for s in found if prepared(s.root) or s in parts or not objects.models(s.root)]
        late = [s for s in found if any(draft.blueprint.after_prepare(s.node, model) for model in models)]
        trained = next((s.node for s in late if s.on), None)
        if trained is not None and any(not s.on and s not in late for s in found):
            yield draft.finding(
                "DDP-UNFREEZE",
                Severity.ERROR,
                trained,
                "parameters are trained from here on that were frozen when prepare wrapped the model: their gradients "
                "are not averaged, and the processes drift apart",
                "prepare the model with everything trained, and keep its learning rate at 0 until then, or convert "
                "with --target runtime",
            )


def _source(group: Group) -> ast.Name | None:
    """The variable from which an object comes, if all that happens before is that it is kept: `self.net = net`."""
    anchor, item = group.anchor, group.items[0]
    if group.before or len(group.items) > 1 or not isinstance(anchor, ast.Assign) or item.target:
        return None
    kept = item.places == tuple(map(ast.unparse, anchor.targets))
    return anchor.value if kept and isinstance(anchor.value, ast.Name) else None


def _written(item: Item) -> tuple[int, int]:
    """Where the variable of an object is bound: objects that are prepared one by one are in that order."""
    bound = (position(b.node) for b in item.scope.bindings.get(item.name, ()))
    return min(bound, default=position(item.statements[0]))


def _call(draft: Draft, item: Item) -> str:
    """How one object is prepared by itself."""
    if draft.blueprint.placed.get(key(item.value), True):
        return "prepare({})"
    if item.name and _may_lack(draft, item):  # prepare hands back what is no loader
        return "prepare({}, device_placement=[False])"
    return "prepare_data_loader({}, device_placement=False)"


def _may_lack(draft: Draft, item: Item) -> bool:
    """Whether the variable of an object may have a constant in its place: `loader = None`."""
    bound = (v for b in item.scope.bindings[item.name] for v in draft.facts.resolver.bound(b))
    return any(v.role is Role.CONSTANT for v in bound)


def _each(place: str, call: str) -> str:
    """The statement that prepares the entries of a list one by one."""
    return f"{place} = [{{accelerator}}.{call.format('entry')} for entry in {place.removesuffix(EACH)}]"


def _called(item: Item) -> str:
    return f"`{item.name}`" if item.name else "the loader made here"
