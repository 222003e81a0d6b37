"""What calls give, on layouts: those of torch, of networks and losses, and of the script's own functions."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.layout import (
    along,
    around,
    choosing,
    derived,
    distributions,
    each,
    entries,
    last_dimensions,
    loss_options,
    losses,
    made_objects,
    making,
    operations,
    pretrained,
    products,
    spelled,
    unfollowed,
    vectorised,
    views,
    wrapped,
)
from accelift_codemod.facts.layout.algebra import (
    FIXED,
    SCALARS,
    Environment,
    Frame,
    Layout,
    Listed,
    Record,
    Shape,
    handed_on,
    item,
    join,
    written_out,
)
from accelift_codemod.facts.signatures import argument
from accelift_codemod.facts.tensor_types import type_names
from accelift_codemod.facts.values import Role, Values

if TYPE_CHECKING:
    from accelift_codemod.facts.layout.interpreter import Layouts

_CALLS_WITH = ("torch.func.functional_call", "torch.nn.utils.stateless.functional_call")  # other parameters
_MOVES = frozenset({"to", "cuda", "cpu", "float", "double"})
_NUMBERS = ("math.", "numpy.")
# Verbs that give what is that of all processes.
_JOINS = frozenset("gather gather_for_metrics reduce batch_mean broadcast all_gather".split())
# What deals each thing with others.
_TUPLES = frozenset(f"itertools.{name}" for name in "combinations permutations product pairwise accumulate".split())
_NORMS = ("torch.linalg.norm", "torch.linalg.vector_norm")
_OF_SAMPLES = (Layout.ROWS, Layout.STATES)  # in the first dimension, or in the second


class Calls:
    """Reads the calls of code that is interpreted."""

    def __init__(self, layouts: Layouts) -> None:
        self.layouts = layouts
        self.objects = layouts.objects
        self.resolver = layouts.resolver
        self.index = layouts.index
        self._running: set[ast.Lambda] = set()

    def read(self, call: ast.Call, env: Environment, frame: Frame) -> Shape:
        """The layout of what a call gives; what it changes where it is, is noted."""
        operands: list[Shape] = []
        receivers: list[Shape] = []
        value = self._given(call, env, frame, (operands, receivers))
        if value is Layout.UNKNOWN and (operands or receivers):
            qualified = self.resolver.library_function(call.func)
            own = self.resolver.callee(call) is not None or (qualified is None and self.resolver.values(call.func))
            if not own and unfollowed.may_meet(call, qualified, operands if qualified else receivers):
                value = Layout.UNSURE
        self.layouts.changes.in_place(call, value, env)
        return value

    def _given(self, call: ast.Call, env: Environment, frame: Frame, seen: tuple[list[Shape], list[Shape]]) -> Shape:
        call = spelled.named(self.resolver, call)
        func = call.func
        qualified = self.resolver.library_function(func)
        call = self.resolver.whole(call) if qualified is not None else call  # of `partial(F.mse_loss, reduction="sum")`
        arguments = [self.layouts.read(a, env, frame) for a in call.args]
        keywords = self._keywords(call, env, frame)
        everything = [*arguments, *keywords.values()]
        seen[0].extend(everything)
        if self._is_one_number(call, qualified):
            return Layout.ZERO
        factors = products.factors(call, qualified)
        if factors is not None and products.squares(*factors):
            if self.layouts.read(factors[0], env, frame) not in FIXED:
                return Layout.MIXED
        if factors is not None and self.layouts.one_for_each(
            [self.layouts.read(f, env, frame) for f in factors], factors
        ):
            return Layout.ROWS
        if factors is not None and products.is_batched(call, qualified):
            layouts = {self.layouts.read(f, env, frame) for f in factors}
            if Layout.ROWS in layouts and layouts <= {Layout.ROWS, *FIXED}:
                return Layout.ROWS
            if Layout.COLUMNS in layouts and all(self.layouts.read(f, env, frame) not in FIXED for f in factors):
                return Layout.MIXED  # `torch.bmm(z[None], z.t()[None])`
        averaged = products.whole_mean(call, qualified)
        if averaged is not None and self.layouts.read(averaged, env, frame) is Layout.UNKNOWN:
            chosen = self.layouts.choosing
            if chosen.is_statistic(averaged) or chosen.is_foreign(averaged) or self._pairs(averaged, env, frame):
                return Layout.UNKNOWN
        compares = (qualified or "").startswith("torch.") or self.resolver.only(func, Role.LOSS)
        if compares and len(call.args) > 1 and self.layouts.neighbours(call.args[0], call.args[1], env, frame):
            return Layout.MIXED
        sides = spelled.set_against(self.resolver, call, qualified)
        if sides is not None and self.layouts.crossed(*sides, env, frame):
            return Layout.MIXED
        made_by = vectorised.mapping(self.layouts, func)
        if made_by is not None:
            return vectorised.mapped(self.layouts, made_by, call, arguments, env, frame)
        ranked = self.layouts.choosing.ranked(call, qualified or "")
        if ranked is not None and self.layouts.read(ranked, env, frame) in (Layout.ROWS, Layout.PICKED):
            return (Layout.MIXED, Layout.MIXED) if choosing.with_places(call, qualified) else Layout.MIXED
        scores = self.layouts.ranks.of(call)
        if scores is not None and self.layouts.read(scores, env, frame) is Layout.ROWS:
            return Layout.UNKNOWN
        reordered = self.layouts.ranks.reorders(call)
        if reordered is not None and self.layouts.read(reordered, env, frame) is Layout.ROWS:
            return (Layout.ROWS, Layout.ROWS)
        numbered = self.layouts.ranks.numbered(call)
        if numbered is not None and self.layouts.read(numbered, env, frame) in (Layout.ROWS, Layout.PICKED):
            return Layout.MIXED
        likely = distributions.probability(self.layouts, call, env, frame)
        if likely is not None:
            return likely
        packed = self.layouts.choosing.packs(call, qualified or "", everything)
        if packed is not None:
            return packed
        if qualified == "torch.arange" and any(self._counts_on(a, env, frame) for a in call.args[:2]):
            if all(e in (Layout.COUNT, *FIXED) or e is Layout.UNKNOWN for e in everything):
                return Layout.PLACES
        if qualified in _TUPLES and self._deals_samples(call, env, frame):
            return Layout.MIXED
        if qualified is not None and qualified.startswith("statistics.") and arguments and arguments[0] not in FIXED:
            return Layout.MEAN if qualified.endswith("mean") and arguments[0] is Layout.ROWS else Layout.MIXED
        if qualified == "collections.Counter" and arguments in ([Layout.ROWS], [Layout.BATCH]):
            return Layout.SUM  # for each class
        made = making.array(qualified, arguments, keywords) if qualified is not None else None
        if made is None and qualified is not None:
            made = making.statistic(qualified, call, arguments)
        if made is not None:
            return made
        if type_names(self.resolver, func):
            return making.legacy_tensor(arguments)
        if qualified is not None and qualified.startswith("torch"):
            name = torch_ops.out_of_place(qualified.rpartition(".")[2])
            if qualified == "torch.autograd.grad":
                return self._gradient(call, env, frame)
            if qualified in _CALLS_WITH and Layout.MIXED in everything:
                return Layout.MIXED
            if qualified == "torch.autograd.Variable":
                return arguments[0] if arguments else Layout.UNKNOWN
            if qualified.startswith("torch.nn.functional.") and name in torch_ops.FUNCTIONAL_LOSSES:
                told = loss_options.spelled_out(self.resolver, call)
                return losses.functional_loss(told, name, views.told(self.index, everything), self.layouts.marked)
            home = qualified.rpartition(".")[0]
            matrices = home in ("torch.linalg", "torch.fft") and name in last_dimensions.OF_DIMENSIONS
            if matrices or home in ("torch", "torch.nn.functional", "torch.special"):
                rank = self._rank(name, call.args[0] if call.args else None)
                return operations.operation(name, self._along(name, call, 1), arguments, keywords, 1, rank)
            if qualified in _NORMS:
                return operations.operation("vector_norm", self._along("norm", call, 1), arguments, keywords, 1)
        builtin = self.resolver.builtin(func)
        if builtin == "next" or (isinstance(func, ast.Attribute) and func.attr in ("next", "__next__")):
            drawn = self._next_of(self.resolver.values(call))
            if drawn is not Layout.CONST:
                return drawn
        if builtin == "dict" and "**" not in keywords and all(isinstance(a, Record) for a in arguments):
            return entries.updated(Record.of({}), arguments, keywords)
        if builtin == "map" and len(call.args) == 2 and isinstance(call.args[0], ast.Lambda):
            return self._mapped(call.args[0], call.args[1], env, frame)
        if builtin == "sum" and len(call.args) == 1:  # what `list(each)` goes through
            arguments = [self.layouts.read(each.gone_through(self.layouts, call.args[0]), env, frame)]
        if builtin is not None:
            return operations.builtin(builtin, arguments)
        if isinstance(func, ast.Attribute):
            if func.attr == "scale" and self.resolver.only(func.value, Role.SCALER) and arguments:
                return arguments[0]
            if isinstance(func.value, ast.Name) and func.value.id == "self" and frame.owner is not None:
                this = env.get("self")
                if isinstance(this, Record) and self.resolver.method(frame.owner, func.attr) is not None:
                    keywords = keywords | {"self": this}
                return self.layouts.modules.own(func.attr, call, arguments, keywords, frame.owner)
            if func.attr == "step" and self.resolver.only(func.value, Role.OPTIMIZER):
                return self._stepped(self.resolver.argument(call, 0, "closure"), env)
            receiver = self.layouts.read(func.value, env, frame)
            seen[1].append(receiver)
            own = isinstance(self.resolver.callee(call), FUNCTIONS)  # a method of an object of the script's
            if isinstance(receiver, Record) and not own and not self.objects.models(func.value):
                self.layouts.changes.becomes(receiver, entries.after(receiver, func.attr, call, arguments, keywords))
                return entries.asked(receiver, func.attr, call, arguments)
            if isinstance(receiver, Listed):
                self.layouts.changes.becomes(receiver, entries.grown(receiver, func.attr, call, arguments))
                if func.attr == "pop":
                    return item(receiver, 0 if call.args else -1) if receiver else Layout.UNKNOWN
            if func.attr == "size" and receiver is Layout.ROWS and call.args:
                if self.layouts.dimensions.later(func.value, call.args[0]):
                    return Layout.CONST
            rows = arguments[0][0] if arguments and isinstance(arguments[0], tuple) and arguments[0] else None
            of_samples = Layout.COUNT in (*arguments[:1], rows)  # so many rows as there are samples: one for each
            if func.attr in ("view", "reshape") and receiver is Layout.ROWS and not of_samples:
                if self.layouts.dimensions.regroups(call):
                    return Layout.UNSURE
            if func.attr == "repeat" and receiver is Layout.ROWS and self.layouts.dimensions.repeats_later(call):
                return Layout.ROWS
            name = torch_ops.out_of_place(func.attr)
            changes = name != func.attr or name in torch_ops.ADDS_UP
            if receiver in FIXED and changes and any(e not in FIXED for e in everything):
                return operations.operation(name, call, [receiver, *arguments], keywords, 0)
            if not isinstance(receiver, tuple) and receiver not in FIXED:
                rank = self._rank(name, func.value)
                return operations.method(name, self._along(name, call, 0), receiver, arguments, keywords, rank)
            if func.attr in ("repeat", "expand") and receiver in FIXED and arguments[:1] == [Layout.COUNT]:
                return Layout.ROWS  # the same for each sample
            fixed = receiver in FIXED and all(written_out(e) in FIXED for e in everything)
            if fixed and not self.objects.models(func.value):
                return Layout.CONST
        return self._called(call, arguments, keywords, env, frame)

    def _keywords(self, call: ast.Call, env: Environment, frame: Frame) -> dict[str, Shape]:
        """The layouts of arguments by name; of a mapping whose entries are not known, by `**`."""
        found: dict[str, Shape] = {}
        for keyword in call.keywords:
            layout = self.layouts.read(keyword.value, env, frame)
            if keyword.arg is None and isinstance(layout, Record):
                found |= zip(layout.names, layout, strict=True)
            else:
                found[keyword.arg or "**"] = layout
        return found

    def _along(self, name: str, call: ast.Call, tensors: int) -> ast.Call:
        """A call with the dimensions written out that it reduces."""
        return along.spelled_out(self.resolver, call, tensors) if name in torch_ops.REDUCES else call

    def _counts_on(self, node: ast.expr, env: Environment, frame: Frame) -> bool:
        """Whether an expression is the number of samples, perhaps and one, or but one."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            sides = [self.layouts.read(side, env, frame) for side in (node.left, node.right)]
            return Layout.COUNT in sides and all(side is Layout.COUNT or side in FIXED for side in sides)
        return self.layouts.read(node, env, frame) is Layout.COUNT

    def _rank(self, name: str, tensor: ast.expr | None) -> int | None:
        """How many dimensions the tensor surely has that a function works on, if it depends on that what this does."""
        asked = name in torch_ops.OF_DIMENSIONS | last_dimensions.OF_DIMENSIONS and tensor is not None
        return self.layouts.dimensions.rank(tensor) if asked and tensor is not None else None

    def _pairs(self, node: ast.expr, env: Environment, frame: Frame) -> bool:
        """Whether an expression has all distances between the rows of two tensors that both depend on the batch."""
        tensors = self.layouts.choosing.distances(node)
        return bool(tensors) and all(self.layouts.read(t, env, frame) not in FIXED for t in tensors)

    def _deals_samples(self, call: ast.Call, env: Environment, frame: Frame) -> bool:
        """Whether what a call goes through are the samples of a batch, or their places."""
        given = call.args[:1] if self.resolver.argument(call, None, "repeat") is None else call.args
        own = {k.arg for k in call.keywords} == {"repeat"} or len(given) == len(call.args) or len(call.args) == 2
        return own and any(each.one(self.layouts, part, env, frame) is not None for part in given)

    def _is_one_number(self, call: ast.Call, qualified: str | None) -> bool:
        """Whether a call makes a tensor of one number that is spelled out, and perhaps moves it: where sums begin."""
        func = call.func
        while qualified is None and isinstance(func, ast.Attribute) and func.attr in _MOVES:
            if not isinstance(func.value, ast.Call):
                return False
            call, func = func.value, func.value.func
            qualified = self.resolver.library_function(func)
        return products.is_one_number(call, qualified)

    def _gradient(self, call: ast.Call, env: Environment, frame: Frame) -> Shape:
        """What `torch.autograd.grad` returns. Of the parameters, the whole batch has one gradient, and what is no
        straight line in it is no mean over the samples; of a sample, it is the sample's own."""
        outputs = self.layouts.read(argument(call, 0, "outputs"), env, frame)
        inputs = self.layouts.read(argument(call, 1, "inputs"), env, frame)
        of_parameters = all(part in FIXED for part in (inputs if isinstance(inputs, tuple) else (inputs,)))
        if outputs is Layout.MIXED or (of_parameters and outputs in SCALARS):
            return Layout.MIXED
        if outputs in (*SCALARS, *_OF_SAMPLES) and not of_parameters:
            asked = inputs if isinstance(inputs, tuple) else (inputs,)
            return tuple(part if part in _OF_SAMPLES else Layout.UNKNOWN for part in asked)
        return Layout.CONST if of_parameters and outputs in FIXED else Layout.UNKNOWN

    def _next_of(self, values: Values) -> Shape:
        """What is drawn from an iterator: a batch, if it is one over loaders."""
        for value in values:
            if value.role is Role.TUPLE:
                return tuple(self._next_of(part) for part in value.inner)
            if value.role is Role.BATCH:
                loaders = [v for part in value.inner for v in part if v.role is Role.LOADER]
                stock = loaders and all(self.objects.loader(loader).stock_batches for loader in loaders)
                return handed_on((value,), Layout.BATCH) if stock else Layout.UNKNOWN
            if value.role in (Role.BATCH, Role.DATA):
                return Layout.UNKNOWN
        return Layout.CONST

    def _stepped(self, closure: ast.expr | None, env: Environment) -> Shape:
        """What `optimizer.step(closure)` returns: what the closure does, for the whole batch on every process."""
        functions = {v.declaration for v in self.resolver.values(closure)}
        target = functions.pop() if len(functions) == 1 else None
        if not isinstance(target, FUNCTIONS):
            return Layout.UNKNOWN
        frame = Frame(None)
        self.layouts.run(target.body, dict(env), frame)
        return Layout.CONST if frame.returned is Layout.SUM else frame.returned or Layout.UNKNOWN

    def network(self, call: ast.Call) -> ast.expr:
        """What a call runs: of `model.forward(x)`, the network."""
        func = call.func
        plain = isinstance(func, ast.Attribute) and func.attr == "forward" and self.resolver.callee(call) is None
        return func.value if plain else func  # type: ignore[attr-defined]

    def _made_with(self, made: ast.Call, env: Environment, frame: Frame) -> dict[str, Shape]:
        """What a loss of torch is made with where it is called at once: `nn.BCELoss(weight=w)(out, y)`."""
        if not self.resolver.only(made, Role.LOSS) or self.resolver.qualified(made.func) is None:
            return {}
        told = {
            k.arg: self.layouts.read(k.value, env, frame) for k in made.keywords if k.arg in ("weight", "pos_weight")
        }
        return {name: layout for name, layout in told.items() if layout not in FIXED}

    def _lambda(self, func: ast.expr) -> ast.Lambda | None:
        """The one lambda that a variable is."""
        bindings = self.resolver.bindings(func) if isinstance(func, ast.Name) else []
        value = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
        plain = isinstance(value, ast.Lambda) and bindings[0].how is How.ASSIGN
        return value if plain and isinstance(value, ast.Lambda) else None

    def _computed(self, function: ast.Lambda, env: Environment, frame: Frame) -> Shape:
        """What a lambda gives; one that calls itself is not followed."""
        if function in self._running:
            return Layout.UNKNOWN
        self._running.add(function)
        try:
            return self.layouts.read(function.body, env, frame)
        finally:
            self._running.remove(function)

    def _called(
        self, call: ast.Call, arguments: list[Shape], keywords: dict[str, Shape], env: Environment, frame: Frame
    ) -> Shape:
        """A call of a model, a loss, or a function of the script."""
        everything = [*arguments, *keywords.values()]
        cls = self.index.enclosing_class(call) if derived.is_super(self.resolver, call) else None
        if cls is not None and self.resolver.callee(call) is None and self.resolver.class_role(cls) is Role.LOSS:
            return self.layouts.modules.derived(cls, everything)
        func = self.network(call)
        values = self.resolver.values(func)
        answer = pretrained.returned(values, arguments, keywords)
        if answer is not None:
            return answer
        models = [v for v in values if v.role is Role.LOSS or self.objects.is_model(v)]
        models = models if values else self.layouts.modules.submodules.of(func)
        if models and len(models) >= len(values):
            if arguments[:1] == [Layout.ROWS] and self.layouts.modules.along_samples(models, call):
                return Layout.MIXED
            made = self._made_with(func, env, frame) if isinstance(func, ast.Call) else {}
            layouts = [self.layouts.modules.forward(v, arguments, keywords | made) for v in models]
            joined = layouts[0]
            for other in layouts[1:]:
                joined = join(joined, other)
            return joined
        target = self.resolver.callee(call)
        short = self._lambda(call.func)
        if short is not None and len(call.args) == len(short.args.args) and not call.keywords:
            names = [parameter.arg for parameter in short.args.args]
            here = env if self.index.function(short) is self.index.function(call) else {}  # of others it knows nothing
            return self._computed(short, here | dict(zip(names, arguments, strict=True)), frame)
        held = made_objects.holding(self.resolver, call, arguments, keywords)
        if held is not None:
            finish = made_objects.finishing(self.resolver, call)
            if finish is None:
                return held
            self.layouts.modules.function(finish, {"self": held}, self.index.enclosing_class(finish))
            return self.layouts.changes.now(held)
        if isinstance(target, ast.ClassDef) and made_objects.plain(self.resolver, target):
            return self._constructed(call, target, env, frame)
        if isinstance(target, FUNCTIONS) and wrapped.changes_results(self.resolver, target):
            return Layout.MIXED if Layout.MIXED in everything else Layout.UNKNOWN
        if isinstance(target, FUNCTIONS):
            owner = self.index.parents.get(target)
            given = self.resolver.bind(call, target)
            changed = dict.fromkeys(self.resolver.kept(target), Layout.UNKNOWN)
            if given is not None:
                by_name = {n: self.layouts.read(e, env, frame) for n, e in given.items()}
                by_name |= around.rest(self.resolver, target, arguments)
                this = self._object(call.func, env, frame)
                if isinstance(this, Record):
                    by_name["self"] = this
                env.update(changed)
                if owner in self.resolver.followed and owner not in self.resolver.self_trained:
                    owner = None  # no module: its attributes are variables
                cls = owner if isinstance(owner, ast.ClassDef) else None
                altered: Environment = {}
                found = self.layouts.modules.function(
                    target, by_name, cls, around.seen(self.layouts, call, target, env), altered
                )
                for name, layout in altered.items():
                    if name in given:
                        self.layouts.changes.altered(given[name], layout, env)
                    elif self.index.scope(call).owner(name) is self.index.scopes[target].owner(name):
                        env[name] = layout  # `global mean`
                return found
            env.update(changed)
        of_all = isinstance(call.func, ast.Attribute) and call.func.attr in _JOINS
        if not of_all and (Layout.MIXED in everything or Layout.SHIFTED in everything):
            return Layout.MIXED
        plain = not values or (self.resolver.library_function(call.func) or "").startswith(_NUMBERS)
        fixed = all(e in FIXED or (isinstance(e, Record) and written_out(e) in FIXED) for e in everything)
        return Layout.CONST if fixed and plain else Layout.UNKNOWN

    def _mapped(self, function: ast.Lambda, over: ast.expr, env: Environment, frame: Frame) -> Shape:
        """What `map` gives: what a comprehension would."""
        names = [parameter.arg for parameter in function.args.args]
        if len(names) != 1:
            return Layout.UNKNOWN
        each = ast.comprehension(ast.Name(names[0], ast.Store()), over, [], 0)
        return self.layouts.comprehension(ast.GeneratorExp(function.body, [each]), env, frame)

    def _object(self, func: ast.expr, env: Environment, frame: Frame) -> Shape | None:
        """The object that a method is one of: of `super().encode`, too."""
        owner = func.value if isinstance(func, ast.Attribute) else None
        if isinstance(owner, ast.Call) and self.resolver.builtin(owner.func) == "super":
            return env.get("self")
        found = self.layouts.read(owner, env, frame) if owner is not None else None
        kept = self.layouts.modules.kept(self.objects.models(owner)) if owner is not None and found in FIXED else None
        return kept or found

    def _constructed(self, call: ast.Call, cls: ast.ClassDef, env: Environment, frame: Frame) -> Shape:
        """The attributes that the constructor of a class sets."""
        record, constructor = Record.of({}), self.resolver.method(cls, "__init__")
        given = self.resolver.bind(call, constructor) if constructor is not None else {}
        if constructor is None or given is None:
            return record if constructor is None and not call.args else Layout.UNKNOWN
        by_name = {n: self.layouts.read(e, env, frame) for n, e in given.items()}
        self.layouts.modules.function(constructor, {**by_name, "self": record}, cls)
        return self.layouts.changes.now(record)
