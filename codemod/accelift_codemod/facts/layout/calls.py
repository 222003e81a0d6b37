"""What calls give, on layouts: those of torch, of networks and losses, and of the script's own functions."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.layout import (
    along,
    choosing,
    distributions,
    each,
    entries,
    last_dimensions,
    loss_options,
    losses,
    making,
    methods,
    operations,
    products,
    spelled,
    squared,
    unfollowed,
    vectorised,
    views,
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
    written_out,
)
from accelift_codemod.facts.layout.own_calls import OwnCalls
from accelift_codemod.facts.signatures import argument
from accelift_codemod.facts.tensor_types import type_names
from accelift_codemod.facts.values import Role, Values

_CALLS_WITH = ("torch.func.functional_call", "torch.nn.utils.stateless.functional_call")  # other parameters
_MOVES = frozenset({"to", "cuda", "cpu", "float", "double"})
# What deals each thing with others.
_TUPLES = frozenset(f"itertools.{name}" for name in "combinations permutations product pairwise accumulate".split())
_NORMS = ("torch.linalg.norm", "torch.linalg.vector_norm")
_OF_SAMPLES = (Layout.ROWS, Layout.STATES)  # in the first dimension, or in the second


@dataclass(frozen=True)
class _Asked:
    """A call that is read: spelled out, the function as it is written, and the layouts of all that it is given."""

    call: ast.Call
    func: ast.expr
    qualified: str | None
    arguments: list[Shape]
    keywords: dict[str, Shape]
    everything: list[Shape]
    env: Environment
    frame: Frame
    receivers: list[Shape]  # those of methods are put here as they are read


class Calls(OwnCalls):
    """Reads the calls of code that is interpreted."""

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
        summed = squared.read(self.layouts, call, env, frame)
        if summed is not None:
            return summed
        arguments = [self.layouts.read(a, env, frame) for a in call.args]
        keywords = self._keywords(call, env, frame)
        everything = [*arguments, *keywords.values()]
        seen[0].extend(everything)
        asked = _Asked(call, func, qualified, arguments, keywords, everything, env, frame, seen[1])
        for step in (
            self._of_products,
            self._of_pairs,
            self._mapped_over,
            self._of_ranks,
            self._of_distributions,
            self._of_python,
            self._made,
            self._of_torch,
            self._of_builtins,
            self._of_methods,
        ):
            value = step(asked)
            if value is not None:
                return value
        return self._called(call, arguments, keywords, env, frame)

    # ---- what a call may be, in this order; None where it is something else

    def _of_products(self, asked: _Asked) -> Shape | None:
        """One number, and products of tensors."""
        call, qualified, env, frame = asked.call, asked.qualified, asked.env, asked.frame
        if self._is_one_number(call, qualified):
            return Layout.ZERO
        factors = products.factors(call, qualified)
        if factors is None:
            return None
        if products.squares(*factors):
            if self.layouts.read(factors[0], env, frame) not in FIXED:
                return Layout.MIXED
        if self.layouts.one_for_each([self.layouts.read(f, env, frame) for f in factors], factors):
            return Layout.ROWS
        if products.is_batched(call, qualified):
            layouts = {self.layouts.read(f, env, frame) for f in factors}
            if Layout.ROWS in layouts and layouts <= {Layout.ROWS, *FIXED}:
                return Layout.ROWS
            if Layout.COLUMNS in layouts and all(self.layouts.read(f, env, frame) not in FIXED for f in factors):
                return Layout.MIXED  # `torch.bmm(z[None], z.t()[None])`
        return None

    def _of_pairs(self, asked: _Asked) -> Shape | None:
        """What sets samples against each other, and the mean of that."""
        call, qualified, env, frame = asked.call, asked.qualified, asked.env, asked.frame
        averaged = products.whole_mean(call, qualified)
        if averaged is not None and self.layouts.read(averaged, env, frame) is Layout.UNKNOWN:
            chosen = self.layouts.choosing
            if chosen.is_statistic(averaged) or chosen.is_foreign(averaged) or self._pairs(averaged, env, frame):
                return Layout.UNKNOWN
        compares = (qualified or "").startswith("torch.") or self.resolver.only(asked.func, Role.LOSS)
        if compares and len(call.args) > 1 and self.layouts.neighbours(call.args[0], call.args[1], env, frame):
            return Layout.MIXED
        sides = spelled.set_against(self.resolver, call, qualified)
        return Layout.MIXED if sides is not None and self.layouts.crossed(*sides, env, frame) else None

    def _mapped_over(self, asked: _Asked) -> Shape | None:
        """What `vmap` maps over the samples."""
        made_by = vectorised.mapping(self.layouts, asked.func)
        if made_by is None:
            return None
        return vectorised.mapped(self.layouts, made_by, asked.call, asked.arguments, asked.env, asked.frame)

    def _of_ranks(self, asked: _Asked) -> Shape | None:
        """What ranks the samples, and takes them in that order."""
        call, qualified, env, frame = asked.call, asked.qualified, asked.env, asked.frame
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
        return None

    def _of_distributions(self, asked: _Asked) -> Shape | None:
        """Probabilities, and sequences that are packed."""
        likely = distributions.probability(self.layouts, asked.call, asked.env, asked.frame)
        if likely is not None:
            return likely
        return self.layouts.choosing.packs(asked.call, asked.qualified or "", asked.everything)

    def _of_python(self, asked: _Asked) -> Shape | None:
        """Numbers that count up, and what Python's own modules make of the samples."""
        call, qualified, arguments, env, frame = asked.call, asked.qualified, asked.arguments, asked.env, asked.frame
        if qualified == "torch.arange" and any(self._counts_on(a, env, frame) for a in call.args[:2]):
            if all(e in (Layout.COUNT, *FIXED) or e is Layout.UNKNOWN for e in asked.everything):
                return Layout.PLACES
        if qualified in _TUPLES and self._deals_samples(call, env, frame):
            return Layout.MIXED
        if qualified is not None and qualified.startswith("statistics.") and arguments and arguments[0] not in FIXED:
            return Layout.MEAN if qualified.endswith("mean") and arguments[0] is Layout.ROWS else Layout.MIXED
        if qualified == "collections.Counter" and arguments in ([Layout.ROWS], [Layout.BATCH]):
            return Layout.SUM  # for each class
        return None

    def _made(self, asked: _Asked) -> Shape | None:
        """Tensors and arrays that are told a size or numbers."""
        qualified, arguments = asked.qualified, asked.arguments
        made = making.array(qualified, arguments, asked.keywords) if qualified is not None else None
        if made is None and qualified is not None:
            made = making.statistic(qualified, asked.call, arguments)
        if made is not None:
            return made
        return making.legacy_tensor(arguments) if type_names(self.resolver, asked.func) else None

    def _of_torch(self, asked: _Asked) -> Shape | None:
        """Functions of torch."""
        call, qualified, arguments, env, frame = asked.call, asked.qualified, asked.arguments, asked.env, asked.frame
        if qualified is None or not qualified.startswith("torch"):
            return None
        name = torch_ops.out_of_place(qualified.rpartition(".")[2])
        if qualified == "torch.autograd.grad":
            return self._gradient(call, env, frame)
        if qualified in _CALLS_WITH and Layout.MIXED in asked.everything:
            return Layout.MIXED
        if qualified == "torch.autograd.Variable":
            return arguments[0] if arguments else Layout.UNKNOWN
        if qualified.startswith("torch.nn.functional.") and name in torch_ops.FUNCTIONAL_LOSSES:
            told = loss_options.spelled_out(self.resolver, call)
            return losses.functional_loss(told, name, views.told(self.index, asked.everything), self.layouts.marked)
        home = qualified.rpartition(".")[0]
        matrices = home in ("torch.linalg", "torch.fft") and name in last_dimensions.OF_DIMENSIONS
        if matrices or home in ("torch", "torch.nn.functional", "torch.special"):
            rank = self._rank(name, call.args[0] if call.args else None)
            return operations.operation(name, self._along(name, call, 1), arguments, asked.keywords, 1, rank)
        if qualified in _NORMS:
            return operations.operation("vector_norm", self._along("norm", call, 1), arguments, asked.keywords, 1)
        return None

    def _of_builtins(self, asked: _Asked) -> Shape | None:
        """Functions that Python has built in, and what is drawn from an iterator."""
        call, func, arguments, env, frame = asked.call, asked.func, asked.arguments, asked.env, asked.frame
        builtin = self.resolver.builtin(func)
        if builtin == "next" or (isinstance(func, ast.Attribute) and func.attr in ("next", "__next__")):
            drawn = self._next_of(self.resolver.values(call))
            if drawn is not Layout.CONST:
                return drawn
        if builtin == "dict" and "**" not in asked.keywords and all(isinstance(a, Record) for a in arguments):
            return entries.updated(Record.of({}), arguments, asked.keywords)
        if builtin == "map" and len(call.args) == 2 and isinstance(call.args[0], ast.Lambda):
            return self._mapped(call.args[0], call.args[1], env, frame)
        if builtin == "sum" and len(call.args) == 1:  # what `list(each)` goes through
            arguments = [self.layouts.read(each.gone_through(self.layouts, call.args[0]), env, frame)]
        return operations.builtin(builtin, arguments) if builtin is not None else None

    def _of_methods(self, asked: _Asked) -> Shape | None:
        """Methods: of a gradient scaler, of `self`, of an optimizer, of objects and tensors."""
        call, func, arguments, keywords = asked.call, asked.func, asked.arguments, asked.keywords
        if not isinstance(func, ast.Attribute):
            return None
        if func.attr == "scale" and self.resolver.only(func.value, Role.SCALER) and arguments:
            return arguments[0]
        if isinstance(func.value, ast.Name) and func.value.id == "self" and asked.frame.owner is not None:
            this = asked.env.get("self")
            if isinstance(this, Record) and self.resolver.method(asked.frame.owner, func.attr) is not None:
                keywords = keywords | {"self": this}
            return self.layouts.modules.own(func.attr, call, arguments, keywords, asked.frame.owner)
        if func.attr == "step" and self.resolver.only(func.value, Role.OPTIMIZER):
            return self._stepped(self.resolver.argument(call, 0, "closure"), asked.env)
        receiver = self.layouts.read(func.value, asked.env, asked.frame)
        asked.receivers.append(receiver)
        own = isinstance(self.resolver.callee(call), FUNCTIONS)  # a method of an object of the script's
        if isinstance(receiver, Record) and not own and not self.objects.models(func.value):
            self.layouts.changes.becomes(receiver, entries.after(receiver, func.attr, call, arguments, keywords))
            return entries.asked(receiver, func.attr, call, arguments)
        if isinstance(receiver, Listed):
            self.layouts.changes.becomes(receiver, entries.grown(receiver, func.attr, call, arguments))
            if func.attr == "pop":
                return item(receiver, 0 if call.args else -1) if receiver else Layout.UNKNOWN
        return self._of_tensor(asked, func, receiver)

    def _of_tensor(self, asked: _Asked, func: ast.Attribute, receiver: Shape) -> Shape | None:
        """Methods of tensors."""
        call, arguments, everything = asked.call, asked.arguments, asked.everything
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
            return operations.operation(name, call, [receiver, *arguments], asked.keywords, 0)
        if not isinstance(receiver, tuple) and receiver not in FIXED:
            rank = self._rank(name, func.value)
            return methods.method(name, self._along(name, call, 0), receiver, arguments, asked.keywords, rank)
        if func.attr in ("repeat", "expand") and receiver in FIXED and arguments[:1] == [Layout.COUNT]:
            return Layout.ROWS  # the same for each sample
        fixed = receiver in FIXED and all(written_out(e) in FIXED for e in everything)
        return Layout.CONST if fixed and not self.objects.models(func.value) else None

    # ---- what the steps ask

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

    def _mapped(self, function: ast.Lambda, over: ast.expr, env: Environment, frame: Frame) -> Shape:
        """What `map` gives: what a comprehension would."""
        names = [parameter.arg for parameter in function.args.args]
        if len(names) != 1:
            return Layout.UNKNOWN
        each = ast.comprehension(ast.Name(names[0], ast.Store()), over, [], 0)
        return self.layouts.comprehension(ast.GeneratorExp(function.body, [each]), env, frame)
