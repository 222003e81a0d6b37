"""What cannot be the same on several processes, whoever converts it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from accelift_codemod.batches import lengths, padding
from accelift_codemod.batches.unasked import unasked
from accelift_codemod.chance import seeds
from accelift_codemod.chance.decided import decides, decides_something, of_batch
from accelift_codemod.chance.noise import in_making
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, torch_ops
from accelift_codemod.facts.chance import NOT_DRAWN, SEEDS, drawn_from, of_distribution, own_generator
from accelift_codemod.facts.gradients import off
from accelift_codemod.facts.index import COMPREHENSIONS, FUNCTIONS, How
from accelift_codemod.facts.tree import is_constant, targets, walk
from accelift_codemod.following.onward import reached
from accelift_codemod.measured.steering import steers
from accelift_codemod.networks import gradient_hooks, modes, ready_networks
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule

_ENTRIES = frozenset({"forward", "__getitem__", "__iter__"})
_TRANSFORMERS = frozenset({"Transformer", "TransformerEncoderLayer", "TransformerDecoderLayer"})
_ATTENTION = _TRANSFORMERS | {"MultiheadAttention"}
_DROPS_AT = {"MultiheadAttention": 2, "Transformer": 5, "TransformerEncoderLayer": 3, "TransformerDecoderLayer": 3}
_TRAINING = 5  # where F.batch_norm is told that
_OF_TENSORS = frozenset({"multinomial", "bernoulli"})  # methods that draw by the numbers in a tensor
_NOISE = frozenset("randn rand randint normal randn_like rand_like bernoulli multinomial".split())

_IN_WORKERS = ("noise of its own", "samples", "noise of collating")


class Notes(Rule):
    """Reports what makes results on several processes differ from those on one, however the script is converted:
    statistics of BatchNorm, dropout masks, noise drawn by the training loop, an evaluation, a network, a data set or a
    collate function. On one process nothing changes.
    """

    code = "NOTE"
    name = "limits of equality"
    findings = (
        Explained(
            "NOTE-BN",
            Severity.NOTE,
            "BatchNorm sees one process's share",
            "BatchNorm computes its statistics from the process's share of the batch. torch.nn.SyncBatchNorm computes "
            "them from the whole batch, at the price of communication.",
        ),
        Explained(
            "BN-UPDATE",
            Severity.WARNING,
            "BatchNorm's averages of one process's share",
            "torch.optim.swa_utils.update_bn passes over a loader to compute the averages that BatchNorm evaluates "
            "with. Over a prepared one, each process computes those of its share, and the main process saves its own.",
        ),
        Explained(
            "RNG-SAMENOISE",
            Severity.NOTE,
            "processes draw the same noise",
            "Processes that the script seeds alike draw the same noise and the same dropout masks. "
            "accelift.utils.set_seed(seed, device_specific=True), called after the models are made, gives each process "
            "its own, but for generators that the script makes itself, with a seed. What only decides which layers "
            "run, or which of several things is picked, has to be the same on every process; it is no such noise. It "
            "is a warning where a data set draws its samples and does not look at the index it is asked for: every "
            "process then has the same samples, and a batch is made of as many copies as there are processes.",
        ),
        Explained(
            "GRAD-HOOK",
            Severity.WARNING,
            "a hook changes gradients before they are averaged",
            "A hook on a parameter sees the gradient of one process's share, before the processes average theirs. What "
            "is not linear, such as clamping, then gives another gradient than on one process. So it is with a hook on "
            "what a network computes, and with the backward pass of an autograd function: the gradient of each sample "
            "is larger by the number of processes, since a mean over a share divides by fewer samples.",
        ),
        Explained(
            "BATCH-PADDED",
            Severity.NOTE,
            "a batch is padded to the longest sample of a share",
            "A collate function makes the samples of a batch as long as its longest one, or cuts them to its "
            "shortest, or the training loop cuts them to that; or its network pads packed sequences again. Each "
            "process has its own share, which may end up shorter. What leaves padding out (a mask, packed sequences, "
            "lengths) computes the same; a mean or a maximum over padded positions does not. It is a warning where "
            "the loss, or what a network makes of packed sequences that it has padded again, surely is one over these "
            "positions, and where samples are cut to the shortest.",
        ),
        Explained(
            "NOTEBOOK",
            Severity.NOTE,
            "a notebook runs on one process",
            "The code cells are converted in place; outputs and metadata are left alone. In a notebook there is one "
            "process, which computes what it did. notebook_launcher runs a function of the notebook on several.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        first: dict[str, ast.Call] = {}
        for call in draft.calls:
            name = self._layer(draft, call)
            normalizes = name in torch_ops.BATCH_NORM or self._normalizes(draft, call)
            normalizes = normalizes or ready_networks.has_batch_norm(draft, call)
            drops = self._drops(draft, call, name) or ready_networks.has_dropout(draft, call)
            if (normalizes or drops) and modes.is_never_trained(draft, call):
                continue
            if normalizes:
                first.setdefault("BatchNorm", call)
            if drops:
                first.setdefault("dropout", call)
        for loop in draft.blueprint.train_loops:
            step = draft.blueprint.handmade.get(loop)
            dealt = loop.body.index(step.made) + 1 if step is not None and step.made in loop.body else 0
            alone = [s for s in loop.body[dealt:] if step is None or s not in step.again]
            for node in self._noise(draft, alone):  # what was drawn before, or again, is dealt
                first.setdefault("noise", node)
        for loop in draft.blueprint.cuts:
            for node in self._noise(draft, loop.body):
                first.setdefault("noise of an evaluation", node)
        for call in draft.calls:
            noisy = self._in_each_batch(draft, call) and self._draws(draft, call) and not _is_shown(draft, call)
            if noisy and not self._is_not_noise(draft, call, _role(draft, call)):
                first.setdefault(_own_kind(draft, call), call)
        if "noise of its own" not in first:
            for role, call in self._for_each_batch(draft):
                if (self._draws(draft, call) and not self._is_not_noise(draft, call, role)) or _draws_in_place(call):
                    first.setdefault(_own_kind(draft, call), call)
        for call in self._collating(draft):
            if _draws_in_place(call) or (self._draws(draft, call) and not self._decides_for_all(draft, call)):
                first.setdefault("noise of collating", call)
        for call in draft.facts.index.methods.get("register_hook", []):
            owner: ast.expr = call.func.value  # type: ignore[attr-defined]
            objects = draft.facts.objects
            if draft.facts.runs(call) and (objects.is_parameter(owner) or objects.is_part(owner)):
                first.setdefault("hook", call)
        for call in draft.facts.index.calls:
            loader = draft.facts.resolver.argument(call, 0, "loader")
            if draft.facts.resolver.qualified(call.func) != "torch.optim.swa_utils.update_bn":
                continue
            shared = any(draft.blueprint.is_prepared(v) for v in draft.facts.resolver.values(loader))
            if shared and not ready_networks.has_no_batch_norm(draft):
                yield draft.finding(
                    "BN-UPDATE",
                    Severity.WARNING,
                    call,
                    "every process computes the averages of BatchNorm from its share of the data, and saves no other",
                    "give it a DataLoader of its own, which is not prepared",
                )
        padded = padding.collated(draft)
        cut = padding.cut(draft) if padded is None else None
        pool = padding.pools(draft) if cut is not None else None
        if cut is not None:
            yield draft.finding(
                "BATCH-PADDED",
                Severity.NOTE if pool is None else Severity.WARNING,
                pool or cut,
                f"`{draft.facts.short(pool)}` goes by places that are padded to the longest sample of a process's "
                "share, not of the batch"
                if pool is not None
                else "this makes samples as long as the longest of a process's share, not of the batch",
                "leave padding out of what is computed, or use a length of its own",
            )
        averaged = padding.averaged(draft) if padded is not None else None
        if averaged is not None:
            yield draft.finding(
                "BATCH-PADDED",
                Severity.WARNING,
                averaged,
                f"`{draft.facts.segment(averaged.func)}(...)` is a mean over the positions of sequences that are "
                "padded to the longest of a process's share, so that every process divides by another number",
                "leave padding out of the loss and give accelerator.backward the number of what is left, "
                "weight=(labels != pad).sum(), or pad to a length of its own",
            )
        elif padded is not None:
            least = lengths.is_least(padded)
            yield draft.finding(
                "BATCH-PADDED",
                Severity.WARNING if least else Severity.NOTE,
                padded,
                f"this {'cuts to the shortest' if least else 'pads to the longest'} sample of a process's share, not "
                "of the batch",
                "leave padding out of what is computed, or pad to a length of its own",
            )
        if "hook" in first:
            yield draft.finding(
                "GRAD-HOOK",
                Severity.WARNING,
                first["hook"],
                "this hook sees the gradient of a process's share, before the processes average theirs",
                "change the gradients after accelerator.backward, unless what the hook does is linear",
            )
        bent = next(gradient_hooks.bending(draft.facts), None)
        if bent is not None:
            yield draft.finding(
                "GRAD-HOOK",
                Severity.WARNING,
                bent,
                "this sees the gradient of a mean over a process's share, which is larger than that over the whole "
                "batch, and is not linear in it",
                "do it with the gradient divided by accelerator.num_processes, and multiply what comes out",
            )
        synchronous = draft.facts.index.attributes.get("convert_sync_batchnorm")
        if "BatchNorm" in first and not synchronous and not self._computes_alike(draft):
            yield draft.finding(
                "NOTE-BN",
                Severity.NOTE,
                first["BatchNorm"],
                "BatchNorm computes its statistics from each process's share of the batch",
                "convert it with torch.nn.SyncBatchNorm if small shares hurt",
            )
        whats = {
            "noise": "the noise of the training loop is",
            "noise of an evaluation": "the noise of an evaluation, drawn for a process's share, is",
            "noise of its own": "the noise that a network or a data set draws is",
            "samples": "samples that a data set draws, whatever index it is asked for, are",
            "noise of collating": "the noise that a collate function draws is",
            "dropout": "dropout masks are",
        }
        told = "call set_seed(seed, device_specific=True) after the models are made"
        decided = next(self._decided(draft), None) if whats.keys() & first.keys() else None
        if decided is not None:
            told += f", and give `{draft.facts.short(decided)}`, which has to be the same everywhere, its own generator"
        for kind, what in whats.items():
            if kind in first and self._is_seeded(draft, kind, first[kind]):
                own = self._generator(draft, first[kind])
                yield draft.finding(
                    "RNG-SAMENOISE",
                    Severity.WARNING if kind == "samples" else Severity.NOTE,
                    first[kind],
                    f"{what} the same on every process, as the script seeds them alike",
                    told if own is None else f"add the process's index to the seed of `{draft.facts.short(own)}`",
                )

    def _computes_alike(self, draft: Draft) -> bool:
        """Whether every process has all of each batch that training goes through: one sample, or what is whole."""
        loops = [loop.loaders for loop in draft.blueprint.train_loops] if draft.options.batch == "global" else []
        return bool(loops) and all(some and all(map(draft.facts.objects.deals_whole, some)) for some in loops)

    def _is_seeded(self, draft: Draft, kind: str, call: ast.Call) -> bool:
        """Whether the script may seed what is drawn from: otherwise every process draws other numbers."""
        if seeds.unseeded(draft, call):
            return False
        home = "torch" if kind == "dropout" else drawn_from(draft.facts.resolver, call)
        names = SEEDS.get(home, ())
        if home in ("numpy", "random") and kind in _IN_WORKERS and self._may_be_in_worker(draft, call):
            names = (*names, *SEEDS["torch"])  # by whose generator torch seeds all those of its workers
        return not home or seeds.perhaps(draft, names)

    def _may_be_in_worker(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call may be made by a worker of a loader: not by a network."""
        objects, cls = draft.facts.objects, draft.facts.index.enclosing_class(call)
        loaders = (objects.loader(value) for _, value in draft.facts.objects_of(Role.LOADER))
        inside = isinstance(cls, ast.ClassDef) and draft.facts.resolver.class_role(cls) is Role.MODEL
        return not inside and any(one.has_workers or not one.complete for one in loaders)

    def _noise(self, draft: Draft, body: Sequence[ast.stmt]) -> Iterator[ast.Call]:
        """The calls by which statements of a loop, or functions that they call, draw random numbers."""
        for node in self._run(draft, body):
            if _draws_in_place(node) or (self._draws(draft, node) and not self._is_same(draft, node)):
                if not _is_shown(draft, node):
                    yield node

    def _run(self, draft: Draft, body: Sequence[ast.stmt | ast.expr]) -> Iterator[ast.Call]:
        for statement in body:
            called = (s for f in draft.blueprint.timeline.calls_into(statement) for s in f.body)
            yield from (c for s in (statement, *called) for c in draft.facts.loops.own_calls(s))

    def _decided(self, draft: Draft) -> Iterator[ast.Call]:
        """The calls that draw what decides, or what is for weights, in training loops and in networks."""
        for loop in draft.blueprint.train_loops:
            yield from (n for n in self._run(draft, loop.body) if self._draws(draft, n) and self._is_same(draft, n))
        inside = (c for c in draft.calls if self._in_each_batch(draft, c) and self._draws(draft, c))
        yield from (c for c in inside if _role(draft, c) is Role.MODEL and decides(draft, c))

    def _is_same(self, draft: Draft, call: ast.Call) -> bool:
        """Whether what a training loop draws has to be the same everywhere: it only decides, or is one for weights."""
        given = (n for a in call.args for n in walk(a) if isinstance(n, ast.Name))
        return decides(draft, call) or any(map(draft.facts.objects.is_parameter, given))

    def _normalizes(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call computes statistics of a batch, as it trains."""
        if draft.facts.resolver.qualified(call.func) != "torch.nn.functional.batch_norm":
            return False
        told = draft.facts.resolver.argument(call, _TRAINING, "training")
        return told is not None and not is_constant(told, False)

    def _draws(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call draws random numbers."""
        module, _, name = (draft.facts.resolver.qualified(call.func) or "").rpartition(".")
        if (module, name) == ("torch", "randperm"):  # of the rows of a batch, which mixes those of a share
            return any(of_batch(draft, argument) for argument in call.args)
        if (module == "torch" and name in _NOISE) or (module in ("numpy.random", "random") and name not in NOT_DRAWN):
            return True
        if isinstance(call.func, ast.Attribute) and call.func.attr in _OF_TENSORS and not name:
            of = draft.facts.resolver.values(call.func.value)  # which is no generator of NumPy, say
            if draft.facts.resolver.callee(call) is None and not any(v.name.startswith("numpy.") for v in of):
                return True
        return of_distribution(draft.facts.resolver, call) or own_generator(draft.facts.resolver, call) is not None

    def _is_not_noise(self, draft: Draft, call: ast.Call, role: Role | None) -> bool:
        """Whether what a network draws only decides, for a whole batch, or what a data set draws, for one sample, is
        drawn by a generator that is made for that sample: `torch.Generator().manual_seed(index)`."""
        if role is Role.MODEL:
            return decides(draft, call)
        given = self._generator(draft, call)
        bound = draft.facts.resolver.bindings(given) if isinstance(given, ast.Name) else []
        here = draft.facts.index.function(call)
        made = (b.how is How.ASSIGN and draft.facts.index.function(b.node) is here for b in bound)
        return role is Role.DATASET and (isinstance(given, ast.Call) or (bool(bound) and all(made)))

    def _generator(self, draft: Draft, call: ast.Call) -> ast.expr | None:
        """The generator of the script's own that a call draws from."""
        own = own_generator(draft.facts.resolver, call)
        given = next((k.value for k in call.keywords if k.arg == "generator"), None)
        return own[0] if own is not None else None if isinstance(given, ast.Constant) else given

    def _in_each_batch(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call is made by a network or a data set for each batch."""
        function = draft.facts.index.function(call)
        owner = draft.facts.index.parents.get(function) if function is not None else None
        if not isinstance(owner, ast.ClassDef) or in_making(draft, function):
            return False
        # What others have a data set draw is for all of the data, and is to be the same on every process.
        sites = draft.facts.resolver.sites(function) if function is not None else []
        told = [s for s in sites if draft.facts.index.enclosing_class(s) is not owner]
        return self._is_made(draft, owner) and not (draft.facts.resolver.class_role(owner) is Role.DATASET and told)

    def _is_made(self, draft: Draft, cls: ast.ClassDef) -> bool:
        """Whether a class is a network or a data set of which the script may make one."""
        maker = draft.facts.resolver.method(cls, "__init__")
        made = maker is None or maker in draft.facts.executed
        return made and draft.facts.resolver.class_role(cls) in (Role.MODEL, Role.DATASET)

    def _for_each_batch(self, draft: Draft) -> Iterator[tuple[Role | None, ast.Call]]:
        """The calls that a network or a data set makes for a batch or a sample, in functions that it calls, too, and
        which of the two it is."""
        for cls in draft.facts.index.classes:
            role = draft.facts.resolver.class_role(cls)
            if self._is_made(draft, cls):
                for method in cls.body:
                    if isinstance(method, FUNCTIONS) and method.name in _ENTRIES:
                        functions = (f for s in method.body for f in draft.blueprint.timeline.calls_into(s))
                        for function in dict.fromkeys((method, *functions)):
                            calls = (n for s in function.body for n in draft.facts.loops.own_calls(s))
                            yield from ((role, call) for call in calls)

    def _collating(self, draft: Draft) -> Iterator[ast.Call]:
        """The calls by which collate functions make the batches of training loops and evaluations."""
        for loop in (*draft.blueprint.train_loops, *draft.blueprint.cuts):
            for function in (f for loader in loop.loaders for f in padding.collates(draft, loader)):
                body = [function.body] if isinstance(function, ast.Lambda) else function.body
                yield from self._run(draft, body)

    def _decides_for_all(self, draft: Draft, call: ast.Call) -> bool:
        """Whether what a collate function draws only decides, for the whole batch."""
        around = draft.facts.index.ancestors(call)
        each = any(isinstance(n, (*COMPREHENSIONS, ast.For, ast.While)) for n in around)
        return not each and decides_something(draft, call)

    def _drops(self, draft: Draft, call: ast.Call, name: str) -> bool:
        """Whether a layer, or a function, leaves out by chance, and not surely with a chance of zero."""
        if name.startswith(("Dropout", "AlphaDropout", "FeatureAlphaDropout", "dropout")):
            given = draft.facts.resolver.argument(call, int(name[0].islower()), "p")
        elif name in torch_ops.RECURRENT or name in _ATTENTION:
            given = draft.facts.resolver.argument(call, _DROPS_AT.get(name), "dropout")
            if given is None and name not in _TRANSFORMERS:
                return False  # which have none if not told so
        else:
            return False
        values = draft.facts.resolver.values(given)
        return not values or any(v.role is not Role.CONSTANT or v.keys != (0,) for v in values)

    def _layer(self, draft: Draft, call: ast.Call) -> str:
        qualified = draft.facts.resolver.qualified(call.func) or ""
        module, _, name = qualified.rpartition(".")
        return name if module in ("torch.nn", "torch.nn.functional") else ""


def _is_shown(draft: Draft, call: ast.Call) -> bool:
    """Whether what a call draws without gradients leads to no loss, as samples that are made to be looked at: what is
    kept in an attribute may."""
    if not off(draft.facts.resolver, call) or steers(draft, [call], saves=False):
        return False
    statements = map(draft.facts.index.statement, reached(draft, [call]))
    return not any(isinstance(t, ast.Attribute) for s in statements for t in targets(s))


def _draws_in_place(call: ast.Call) -> bool:
    """Whether a call fills a tensor with random numbers."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in torch_ops.FILLS


def _own_kind(draft: Draft, call: ast.Call) -> str:
    """What a network or a data set draws by a call: noise, or the samples of which the index says nothing."""
    dataset = draft.facts.index.enclosing_class(call) if _role(draft, call) is Role.DATASET else None
    return "noise of its own" if unasked(draft.facts.resolver, dataset) is None else "samples"


def _role(draft: Draft, call: ast.Call) -> Role | None:
    """What the class is that a call stands in: a network, a data set."""
    return draft.facts.resolver.class_role(draft.facts.index.enclosing_class(call))
