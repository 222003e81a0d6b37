"""How a collate function of the script makes a batch of samples: what has a row for each, and what joins them.

The function is interpreted on what it is given, the samples in a list. What it stacks has one row for each sample; what
it joins by `torch.cat` has as many rows as its samples have together, which is another number for each share.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from accelift_codemod.facts import torch_ops
from accelift_codemod.facts.classes import is_static
from accelift_codemod.facts.effects import stores
from accelift_codemod.facts.index import FUNCTIONS, Function, How
from accelift_codemod.facts.layout import methods, operations, samples
from accelift_codemod.facts.layout.algebra import FIXED, Layout, Record, Shape, join
from accelift_codemod.facts.layout.arithmetic import combine
from accelift_codemod.facts.layout.products import integer
from accelift_codemod.facts.layout.samples import LISTS, SEVERAL, Environment, Known, Part
from accelift_codemod.facts.layout.stacking import DEFAULT, JOINS, STACKS, TENSORS, only_stacks
from accelift_codemod.facts.objects import Objects
from accelift_codemod.facts.signatures import argument
from accelift_codemod.facts.tree import is_constant, leaves, targets, walk
from accelift_codemod.facts.values import Value

_TAKING = frozenset({"pop", "remove", "clear"})
_KEEPING = frozenset({"list", "tuple", "sorted", "reversed"})
_MOST_STEPS = 6
_MOST_FIELDS = 12


class Collated:
    """Answers what the batches of loaders are made of."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.resolver = objects.resolver
        self.index = objects.index
        self._steps = 0

    def batch(self, loaders: Iterable[Value]) -> Shape:
        """The layout of a batch that any of some loaders deals."""
        found = [self._of(loader) for loader in loaders]
        batch = found[0] if found else Layout.UNKNOWN
        for other in found[1:]:
            batch = join(batch, other)
        return batch

    def _of(self, value: Value) -> Shape:
        loader = self.objects.loader(value)
        if loader.stock_batches:
            return Layout.BATCH
        collate = loader.arguments.get("collate_fn")
        if not loader.complete or collate is None or not value.name.startswith("torch.utils.data."):
            return Layout.UNKNOWN
        if self.resolver.qualified(collate) in DEFAULT:
            return Layout.BATCH
        made = {self._made(function) for function in self._functions(collate)}
        return made.pop() if len(made) == 1 else Layout.UNKNOWN

    def stacks(self, value: Value) -> bool:
        """Whether batches have a row for each sample, in their order, whose form goes by that sample alone: what
        torch's default makes of samples, or a function of the script that only stacks them. What pads samples to the
        longest of their batch is none."""
        loader = self.objects.loader(value)
        collate = loader.arguments.get("collate_fn")
        if loader.stock_batches or collate is None:
            return loader.stock_batches
        if self.resolver.qualified(collate) in DEFAULT:
            return loader.complete and value.name.startswith("torch.utils.data.")
        known = self._of(value) not in (Layout.UNKNOWN, Layout.UNSURE)
        return known and all(only_stacks(self.resolver, function) for function in self._functions(collate))

    def _functions(self, node: ast.expr, steps: int = 0) -> list[Function | ast.Lambda]:
        """The functions that an expression may be, or their `__call__`; none if any of them is something else."""
        if isinstance(node, ast.Lambda):
            return [node]
        if isinstance(node, ast.Call) and node in self.resolver.partials:
            return self._functions(node.args[0], steps) if len(node.args) == 1 else []
        bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
        if (
            len(bindings) == 1
            and bindings[0].how is How.ASSIGN
            and bindings[0].value is not None
            and steps < _MOST_STEPS
        ):
            return [] if bindings[0].path else self._functions(bindings[0].value, steps + 1)
        found: list[Function | ast.Lambda] = []
        for value in self.resolver.values(node):
            target, kept = value.declaration, value.origin if value.origin in self.resolver.partials else None
            if isinstance(kept, ast.Call) and len(kept.args) > 1:
                return []  # the samples are not what its first parameter gets
            if isinstance(target, ast.ClassDef):
                target = self.resolver.method(target, "__call__")
            if not isinstance(target, (*FUNCTIONS, ast.Lambda)):
                return []
            found.append(target)
        return found

    def _made(self, function: Function | ast.Lambda) -> Shape:
        parameters = [p.arg for p in (*function.args.posonlyargs, *function.args.args)]
        method = isinstance(self.index.parents.get(function), ast.ClassDef)
        if method and not isinstance(function, ast.Lambda) and not is_static(function):
            del parameters[0]
        if not parameters:
            return Layout.UNKNOWN
        env: Environment = {parameters[0]: Part.EACH}
        made = self._read(function.body, env) if isinstance(function, ast.Lambda) else self._run(function.body, env)
        return samples.settled(made) if made is not None else Layout.UNKNOWN

    # ---- statements

    def _run(self, statements: list[ast.stmt], env: Environment, times: Part | None = None) -> Known | None:
        """What statements return, None if they do not; `times` says how often they run: for EACH sample, several
        TIMES for each, or for any number of PIECES of it."""
        returned: list[Known] = []
        for statement in statements:
            if isinstance(statement, ast.Return):
                if statement.value is not None and not is_constant(statement.value, None):  # None: there are no samples
                    returned.append(self._read(statement.value, env))
            elif isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
                value = self._read(statement.value, env)
                for target in targets(statement):
                    self._bind(target, value, env)
            elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
                listed = env.get(statement.target.id) in (Part.PIECES, *SEVERAL)
                even = listed and self._as_many(env[statement.target.id], statement.value, env, times)
                value = self._arithmetic(statement.op, statement.target, statement.value, env)
                env[statement.target.id] = Part.TIMES if even else Part.PIECES if listed else value
            elif isinstance(statement, ast.For):
                iterated = self._read(statement.iter, env)
                element = self._element(iterated)
                self._bind(statement.target, element, env)
                often = Part.PIECES if leaves(statement.body) else self._often(statement.iter, iterated, env, times)
                inner = self._run(statement.body, env, often)
                returned += [] if inner is None else [inner]
            elif isinstance(statement, ast.If):
                returned += self._branches(statement, env, times)
            elif isinstance(statement, ast.With):
                inner = self._run(statement.body, env, times)
                returned += [] if inner is None else [inner]
            elif isinstance(statement, ast.Expr):
                self._fill(statement.value, env, times)
            else:
                env.update(dict.fromkeys(samples.shortened(statement, env), Part.PIECES))
                env.update(dict.fromkeys(stores(statement), Layout.UNKNOWN))
                returned += [Layout.UNKNOWN for n in walk(statement) if isinstance(n, ast.Return)]
        if not returned:
            return None
        return returned[0] if all(r == returned[0] for r in returned) else Layout.UNKNOWN

    def _often(self, node: ast.expr, iterated: Known, env: Environment, times: Part | None) -> Part:
        """How often what is done for each entry of an iterable is done."""
        if iterated is Part.PIECES:
            return Part.PIECES
        if times is None and iterated is Part.TIMES:
            return Part.TIMES
        if times is None and samples.of_sample(self._element(iterated)) and not self._is_fixed(node, env):
            return Part.EACH
        return Part.TIMES if times in (Part.EACH, Part.TIMES) and self._is_fixed(node, env) else Part.PIECES

    def _is_fixed(self, node: ast.expr, env: Environment) -> bool:
        """Whether an iterable has the same number of entries for every sample of every batch."""
        if isinstance(node, (ast.Tuple, ast.List)):
            return not any(isinstance(e, ast.Starred) for e in node.elts)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            sides = (node.left, node.right)
            return any(self._is_fixed(a, env) and samples.settled_number(b, env) for a, b in (sides, sides[::-1]))
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return all(self._is_fixed(g.iter, env) and not g.ifs for g in node.generators)
        if isinstance(node, ast.Call) and self.resolver.builtin(node.func) == "range":
            return all(samples.settled_number(a, env) for a in node.args)
        return False

    def _as_many(self, listed: Known, added: ast.expr, env: Environment, times: Part | None) -> bool:
        """Whether a list has as many entries for each sample still, once others are added to it."""
        return times in (Part.EACH, Part.TIMES) and listed in SEVERAL and self._is_fixed(added, env)

    def _branches(self, branch: ast.If, env: Environment, times: Part | None) -> list[Known]:
        """Run both branches: what they return; the variables become what they are after either of them."""
        returned: list[Known] = []
        left: list[Environment] = []
        for body in (branch.body, branch.orelse):
            inner = dict(env)
            found = self._run(body, inner, Part.PIECES if times is not None else None)
            returned += [] if found is None else [found]
            if not (body and isinstance(body[-1], (ast.Return, ast.Raise))):
                left.append(inner)
        for name in {n for inner in left for n in inner}:
            values = {inner.get(name, Layout.UNKNOWN) for inner in left}
            env[name] = values.pop() if len(values) == 1 else Part.PIECES if Part.PIECES in values else Layout.UNKNOWN
        return returned

    def _fill(self, node: ast.expr, env: Environment, times: Part | None) -> None:
        """What a list holds after `xs.append(x)` or `xs.extend(x)`."""
        func = node.func if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or not isinstance(func, ast.Attribute):
            return
        name = func.value.id if isinstance(func.value, ast.Name) else ""
        if func.attr in _TAKING and env.get(name) in LISTS:
            env[name] = Part.PIECES
        if func.attr not in ("append", "extend") or not node.args or name not in env or isinstance(env[name], tuple):
            return
        value = self._read(node.args[0], env)
        if func.attr == "extend" and self._as_many(env[name], node.args[0], env, times):
            env[name] = Part.TIMES
        elif times is Part.PIECES or env[name] is Part.PIECES or (times is not None and func.attr == "extend"):
            env[name] = Part.PIECES
        elif times is not None and env[name] in SEVERAL and (times is Part.TIMES or env[name] is not Part.EMPTY):
            env[name] = Part.TIMES
        elif env[name] is Part.EMPTY and times is Part.EACH and func.attr == "append":
            env[name] = Part.ROWS_EACH if value is Part.ROW else Part.EACH
        else:
            env[name] = Layout.UNKNOWN

    def _bind(self, target: ast.expr, value: Known, env: Environment) -> None:
        if isinstance(target, ast.Name):
            env[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            for place, part in enumerate(target.elts):
                name = part.value if isinstance(part, ast.Starred) else part
                self._bind(name, samples.item(value, place), env)

    # ---- expressions

    def _read(self, node: ast.expr, env: Environment) -> Known:
        if isinstance(node, ast.Constant):
            return Layout.CONST
        if isinstance(node, ast.Name):
            return env.get(node.id, Layout.CONST)
        if isinstance(node, ast.List) and not node.elts:
            return Part.EMPTY
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(self._read(e, env) for e in node.elts)
        if isinstance(node, ast.Dict):
            names = [k.value if isinstance(k, ast.Constant) else None for k in node.keys]
            shapes = [samples.settled(self._read(v, env)) for v in node.values]
            return Record.of({n: s for n, s in zip(names, shapes, strict=True) if isinstance(n, str)})
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self._comprehension(node, env)
        if isinstance(node, ast.DictComp):  # of names that every sample has
            return Layout.BATCH if self._read(node.value, env) is Layout.ROWS else Layout.UNKNOWN
        if isinstance(node, ast.Call):
            return self._call(node, env)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, env)
        if isinstance(node, ast.Starred):
            return self._read(node.value, env)
        if isinstance(node, ast.Attribute):
            value = self._read(node.value, env)
            return value if samples.of_sample(value) or value in FIXED else Layout.UNKNOWN
        if isinstance(node, ast.BinOp):
            return self._arithmetic(node.op, node.left, node.right, env)
        parts = [self._read(n, env) for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
        return samples.mixed(parts)

    def _arithmetic(self, operator: ast.operator, left: ast.expr, right: ast.expr, env: Environment) -> Known:
        """What is computed of tensors of the batch, such as samples less their mean."""
        first, second = self._read(left, env), self._read(right, env)
        if isinstance(first, Layout) and isinstance(second, Layout):
            return combine(operator, first, second)
        return samples.mixed([first, second])

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp, env: Environment) -> Known:
        inner = dict(env)
        elements: list[Known] = []
        times: Part | None = None
        for generator in node.generators:
            iterated = self._read(generator.iter, inner)
            elements.append(self._element(iterated))
            times = self._often(generator.iter, iterated, inner, times)
            self._bind(generator.target, elements[-1], inner)
        if not any(map(samples.of_sample, elements)):
            made = self._read(node.elt, inner)
            if elements != [Part.EACH]:
                return Layout.UNKNOWN
            if made is Layout.PICKED:
                return tuple([made] * _MOST_FIELDS)  # nobody takes more of them than there are
            return Layout.BATCH if made is Layout.ROWS else Part.FIELDS if made is Part.EACH else Layout.UNKNOWN
        if any(generator.ifs for generator in node.generators) or times is Part.PIECES:
            return Part.PIECES
        if times is Part.TIMES:
            return Part.TIMES
        return Part.ROWS_EACH if self._read(node.elt, inner) is Part.ROW else Part.EACH

    def _subscript(self, node: ast.Subscript, env: Environment) -> Known:
        base = self._read(node.value, env)
        place = node.slice.value if isinstance(node.slice, ast.Constant) else ""
        if samples.of_sample(base):
            return Part.ROW if place is None else Part.SAMPLE
        if base is Part.PIECES or base in LISTS:
            if isinstance(node.slice, ast.Slice):
                return base if samples.is_whole(node.slice) else Part.PIECES
            return Part.ROW if base is Part.ROWS_EACH else Part.SAMPLE
        if isinstance(place, int):
            return samples.item(base, place)
        return base if base in FIXED else Layout.UNKNOWN

    def _element(self, value: Known) -> Known:
        """What iterating over a value yields."""
        if value is Part.FIELDS:
            return Part.EACH
        if value in (Part.TIMES, Part.PIECES, *LISTS):
            return Part.ROW if value is Part.ROWS_EACH else Part.SAMPLE
        if isinstance(value, tuple) and value and value[0] == (Layout.CONST, Part.SAMPLE):
            return value[0]  # of enumerate
        return Layout.UNKNOWN

    def _call(self, call: ast.Call, env: Environment) -> Known:
        given = [self._read(a, env) for a in call.args]
        first = given[0] if given else Layout.CONST
        qualified = self.resolver.qualified(call.func) or ""
        builtin = self.resolver.builtin(call.func)
        if builtin is not None:
            return self._builtin(builtin, call, given)
        dimension = argument(call, 1, "dim") or argument(call, 1, "axis")
        along = 0 if dimension is None else integer(dimension)
        home, _, name = qualified.rpartition(".")
        if qualified in DEFAULT:
            picked = tuple([Layout.PICKED] * _MOST_FIELDS)  # nobody takes more of them than there are
            if first is Part.TIMES:
                return tuple([Layout.STACKED] * _MOST_FIELDS)
            return Layout.BATCH if first in LISTS else picked if first is Part.PIECES else Layout.UNKNOWN
        if qualified in STACKS | JOINS | TENSORS and along == 0 and first is Part.PIECES:
            return Layout.PICKED
        if qualified in STACKS | TENSORS and (qualified in TENSORS or along == 0):
            single = isinstance(first, tuple) and len(first) == 1 and samples.of_sample(first[0])
            if first in LISTS:
                return Layout.ROWS
            if first is Part.TIMES:
                return Layout.STACKED
            return Part.ROW if single else first if isinstance(first, Layout) else samples.mixed(given)
        if qualified in JOINS:
            listed = {Part.ROWS_EACH: Layout.ROWS, Part.EACH: Layout.PICKED, Part.TIMES: Layout.PICKED}
            return (
                listed.get(first, samples.mixed(given))
                if along == 0 and isinstance(first, Part)
                else samples.mixed(given)
            )
        if qualified == "torch.nn.utils.rnn.pad_sequence" and first in LISTS:
            rows = argument(call, 1, "batch_first")
            return Layout.ROWS if is_constant(rows, True) else Layout.COLUMNS
        if home == "torch" and name in torch_ops.SIZED and not any(map(samples.of_sample, given)):
            size = first[0] if isinstance(first, tuple) and first else first
            return Layout.ROWS if size is Layout.COUNT else Layout.UNKNOWN
        target = self.resolver.callee(call)
        if isinstance(target, FUNCTIONS):
            return self._own(call, target, env)
        plain = [g for g in map(samples.plain, given) if g is not None]
        if home == "torch" and first not in FIXED and len(plain) == len(given):
            return operations.operation(name, call, [*plain], {}, 1)
        return self._method(call, env, given)

    def _builtin(self, name: str, call: ast.Call, given: list[Known]) -> Known:
        first = given[0] if given else Layout.CONST
        if name == "zip" and len(call.args) == 1 and isinstance(call.args[0], ast.Starred):
            picked = tuple([Part.PIECES] * _MOST_FIELDS)  # nobody takes more of them than there are
            return picked if first is Part.PIECES else Part.FIELDS if self._read_lists(given) else Layout.UNKNOWN
        if name == "zip" and given and all(g in LISTS for g in given):
            return Part.EACH
        if name == "enumerate" and first in LISTS:
            return ((Layout.CONST, Part.SAMPLE),)
        if name == "filter" and len(given) == 2 and given[1] in (Part.PIECES, *LISTS):
            return Part.PIECES
        if name == "map" and len(given) == 2:
            if given[1] is Part.FIELDS and self.resolver.qualified(call.args[0]) in STACKS:
                return tuple([Layout.ROWS] * _MOST_FIELDS)
            return Part.EACH if given[1] in LISTS else given[1] if given[1] is Part.FIELDS else Layout.UNKNOWN
        if name == "len" and first in LISTS:
            return Layout.COUNT
        if name == "range" and first is Layout.COUNT:
            return Part.EACH
        if name in _KEEPING and isinstance(first, Part) and not samples.of_sample(first):
            return first
        if name in ("list", "tuple") and len(call.args) == 1 and isinstance(first, tuple):
            return first
        return samples.mixed(given)

    def _read_lists(self, given: list[Known]) -> bool:
        return all(g in LISTS for g in given)

    def _own(self, call: ast.Call, target: Function, env: Environment) -> Known:
        """What a function of the script returns that the collate function calls."""
        bound = self.resolver.bind(call, target)
        if bound is None or self._steps >= _MOST_STEPS:
            return Layout.UNKNOWN
        self._steps += 1
        try:
            made = self._run(target.body, {name: self._read(a, env) for name, a in bound.items()})
        finally:
            self._steps -= 1
        return Layout.CONST if made is None else made

    def _method(self, call: ast.Call, env: Environment, given: list[Known]) -> Known:
        if not isinstance(call.func, ast.Attribute):
            return samples.mixed(given)
        name = call.func.attr
        receiver = self._read(call.func.value, env) if not self.resolver.qualified(call.func) else Layout.CONST
        if samples.of_sample(receiver):
            first = integer(call.args[0]) if call.args else None
            made = (name == "unsqueeze" and first == 0) or (name in ("view", "reshape") and first == 1)
            kept = receiver is Part.ROW and name in torch_ops.ROW_WISE
            return Part.ROW if made or kept else Part.SAMPLE
        plain = [g for g in map(samples.plain, given) if g is not None]
        if isinstance(receiver, Layout) and receiver not in FIXED and len(plain) == len(given):
            return methods.method(name, call, receiver, [*plain], {})
        return samples.mixed([receiver, *given])
