"""What lints ask of a script that uses Accelerate."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from accelift_codemod.facts import gradients, plugins
from accelift_codemod.facts.accelerate import AccelerateFacts, is_accelerator, is_state
from accelift_codemod.facts.chance import drawn_from
from accelift_codemod.facts.fetching import Fetching
from accelift_codemod.facts.flow import Flow
from accelift_codemod.facts.index import FUNCTIONS, Binding, How, Scope, position
from accelift_codemod.facts.layout.algebra import Environment, Layout, Shape, dealt
from accelift_codemod.facts.loops import BatchLoop
from accelift_codemod.facts.objects import Optimizer
from accelift_codemod.facts.onwards import Onwards
from accelift_codemod.facts.ranks import Ranks
from accelift_codemod.facts.seeding import Seeding
from accelift_codemod.facts.timeline import Timeline
from accelift_codemod.facts.together import Collectives
from accelift_codemod.facts.trained import Trained
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.values import Key, Role, Value, Values, key

_FILLS = frozenset("append appendleft extend add insert put push store".split())


class World:
    """Facts of one script, seen from its processes."""

    def __init__(self, facts: AccelerateFacts) -> None:
        self.facts = facts
        self.resolver = facts.resolver
        self.index = facts.index
        self.together = Collectives(self.resolver)
        self.flow = Flow(self.resolver, self.together.of)
        self.ranks = Ranks(self.resolver)
        self.fetching = Fetching(self.resolver, self.ranks)
        self.onwards = Onwards(self.index)
        self.seeding = Seeding(self)

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Every call, in source order."""
        return sorted(self.index.calls, key=position)

    def verbs(self, *names: str) -> Iterator[ast.Call]:
        """The calls of methods of accelerators."""
        for call in self.calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr in names and self.together.verb(call):
                yield call

    def qualified(self, call: ast.Call) -> str:
        """The library name that a call spells; empty if it is none."""
        return self.resolver.qualified(call.func) or ""

    def text(self, node: ast.AST) -> str:
        """The author's text of a node, on one line, for messages."""
        text = " ".join(self.facts.segment(node).split())
        return text if len(text) <= 60 else f"{text[:57]}..."

    # ---- accelerators

    @cached_property
    def accelerators(self) -> list[ast.Call]:
        """The calls that make accelerators."""
        return [
            call
            for call in self.calls
            if any(is_accelerator(v) and v.origin is call for v in self.resolver.values(call))
        ]

    @cached_property
    def library(self) -> str:
        """The library whose accelerators or states the script uses; empty if it uses none, or several."""
        read = [loads[0] for scope in self.index.scopes.values() for loads in scope.loads.values()]
        found = {
            v.name.partition(".")[0] for node in (*read, *self.calls) for v in self.resolver.values(node) if is_state(v)
        }
        return found.pop() if len(found) == 1 else ""

    def setting(self, name: str) -> ast.expr | None:
        """An argument of the script's one accelerator; None if it is not given, or there are several accelerators."""
        if len(self.accelerators) != 1:
            return None
        return self.resolver.argument(self.accelerators[0], None, name)

    @cached_property
    def settings_known(self) -> bool:
        """Whether there is one accelerator, made with arguments that can all be seen."""
        return len(self.accelerators) == 1 and all(k.arg is not None for k in self.accelerators[0].keywords)

    @cached_property
    def splits_batches(self) -> bool:
        """Whether the batch sizes of loaders may be those of all processes together."""
        if self.library != "accelerate" or not self.settings_known:
            return not self.settings_known or self.mentions("split_batches")
        if any(isinstance(a.ctx, ast.Store) for a in self.index.attributes.get("split_batches", [])):
            return True
        configuration = self.setting("dataloader_config")
        made = [v.origin for v in self.resolver.values(configuration)]
        known = [m for m in made if isinstance(m, ast.Call) and all(k.arg for k in m.keywords) and not m.args]
        if configuration is not None and (not made or len(known) < len(made)):
            return True
        return any(k.arg == "split_batches" for m in known for k in m.keywords)

    @cached_property
    def wraps(self) -> bool:
        """Whether models are wrapped in DistributedDataParallel, as far as the script says: nothing else is set up."""
        stand_ins = ("DummyOptim", "DummyScheduler", "MegatronLMDummyScheduler")  # where these make the optimizer
        return not any(map(self.mentions, stand_ins)) and not plugins.sets_up_another(self.resolver)

    def wrapped(self, model: Value) -> bool:
        """Whether there is a wrapper around a prepared model on several processes: it has parameters to train."""
        return self.wraps and not self.trained.perhaps_not(model)

    @cached_property
    def trained(self) -> Trained:
        return Trained(self.resolver, self.optimizers, set(self.verbs("clip_grad_norm_")))

    @cached_property
    def places(self) -> bool:
        """Whether `prepare` puts everything on the accelerator's device, as far as the script says."""
        told = [k.value for call in self.calls for k in call.keywords if k.arg == "device_placement"]
        told += [argument for call in self.accelerators for argument in call.args[:1]]
        return all(is_constant(value, True) for value in told)

    def certainly_before(self, first: ast.AST, second: ast.AST) -> bool:
        """Whether a node has certainly run when another one in its function does."""
        index = self.index
        if index.function(first) is not index.function(second):
            return False
        around = [index.statement(first)]
        while isinstance(outer := index.parents[around[-1]], (ast.With, ast.AsyncWith)):
            around.append(outer)  # which has run as a whole then
        blocks = [*map(index.block, index.chain(second))]
        return any(other is block and at > place for block, place in map(index.block, around) for other, at in blocks)

    def rounds(self, node: ast.AST, steps: int = 4) -> list[ast.AST]:
        """The loops that a node certainly runs in, the inner ones first: in its function, else at all its calls."""
        loops, function = self.index.enclosing_loops(node), self.index.function(node)
        if loops or function is None or not steps:
            return loops
        found = [self.rounds(site, steps - 1) for site in self.resolver.sites(function)]
        return [loop for around in found for loop in around] if found and all(found) else []

    def runs_after(self, first: ast.AST, node: ast.AST) -> bool:
        """Whether a node, perhaps in a function that is called then, only runs when another one has run before."""
        home = self.index.function(first)
        if self.index.function(node) is home:
            return position(first) < position(node)
        places = self.timeline.places(node, home)
        if not places and not self.timeline.follows(node, home):
            return False
        return all(self.certainly_before(first, place) for place in places)

    def accelerator_at(self, node: ast.AST) -> str:
        """The variable that certainly holds an accelerator where a node stands; empty if there is none."""
        index = self.index
        for name in self._accelerator_names:
            read = ast.copy_location(ast.Name(name, ast.Load()), node)
            index.parents[read] = index.parents[node]
            holder = index.scope(read).owner(root := name.partition(".")[0])
            if holder is index.module and not self.facts.source.has_name_for(root, read.lineno):
                continue
            values = self.resolver.values(read)
            if holder is not None and values and all(map(is_accelerator, values)):
                if all(self._bound(binding, node) for binding in self.resolver.bindings(read)):
                    return name
        return ""

    def processes_at(self, node: ast.AST) -> str:
        """What can be asked about processes where a node stands, as it is spelled there."""
        return self.accelerator_at(node) or "PartialState()"

    def _bound(self, binding: Binding, node: ast.AST) -> bool:
        """Whether a variable has certainly been given a value when a node, perhaps in another function, runs."""
        if binding.how is How.PARAMETER:
            return True
        home = self.index.function(binding.node)
        if home is self.index.function(node):
            return self.certainly_before(binding.node, node)
        places = self.timeline.places(node, home)
        if not places and not self.timeline.follows(node, home):
            return False
        return all(self.certainly_before(binding.node, place) for place in places)

    def by_its_own(self, node: ast.AST, steps: int = 4) -> bool:
        """Whether a process may come to a node by itself: where an exception is handled, or by a value of its own."""
        child = node
        for parent in self.index.ancestors(node):
            if isinstance(parent, ast.ExceptHandler):
                return True
            if isinstance(parent, (ast.If, ast.IfExp, ast.While)) and child is not parent.test:
                if self.flow.local(parent.test) is not None:
                    return True
            if isinstance(child, ast.stmt) and any(self.flow.local(t) for t in self.ranks.left_before(child)):
                return True
            if isinstance(parent, FUNCTIONS):
                sites = self.resolver.sites(parent) if steps else []
                return bool(sites) and all(self.by_its_own(site, steps - 1) for site in sites)
            child = parent
        return False

    def collects(self, node: ast.AST) -> bool:
        """Whether an expression may hold what this process has collected itself: what it drew at random, computed or
        was told, put into an object bit by bit."""
        for part in self.flow.sources(node):
            for given in self._filled(part):
                for inner in self.flow.sources(given):
                    if isinstance(inner, ast.Call) and (
                        self.flow.unknown(inner)
                        or drawn_from(self.resolver, inner)
                        or any(v.role is Role.MODEL for v in self.resolver.values(inner.func))
                    ):
                        return True
        return False

    def _filled(self, node: ast.AST) -> Iterator[ast.expr]:
        """What is put into the object that a variable holds: `memory.append(...)`."""
        if isinstance(node, ast.Name):
            for load in self.facts.loads_of(node):
                method = self.index.parents.get(load)
                call = self.index.parents.get(method) if isinstance(method, ast.Attribute) else None
                if isinstance(call, ast.Call) and isinstance(method, ast.Attribute) and method.attr in _FILLS:
                    yield from call.args

    @cached_property
    def deals_items(self) -> bool:
        """Whether the script deals items out to its processes itself: a part of something, by the process's number."""
        if any(True for _ in self.verbs("split_between_processes")):
            return True
        bounds = [n.lower for n in walk(self.index.tree) if isinstance(n, ast.Slice) and n.lower is not None]
        bounds += [a for c in self.calls if self.resolver.builtin(c.func) == "range" for a in c.args[:1]]

        def other(node: ast.AST) -> bool:
            return isinstance(node, ast.Call) and self.resolver.builtin(node.func) is None

        return any(self.ranks.is_rank(part) for bound in bounds for part in self.flow.sources(bound, other))

    @cached_property
    def timeline(self) -> Timeline:
        return Timeline(self.resolver)

    @cached_property
    def _accelerator_names(self) -> list[str]:
        """The variables that hold accelerators somewhere."""
        names = {
            name
            for scope in self.index.scopes.values()
            for name, loads in scope.loads.items()
            if any(is_accelerator(v) for v in self.resolver.values(loads[0]))
        }
        return sorted(names)

    # ---- what is prepared

    def prepared(self, node: ast.AST | None, role: Role) -> Values:
        """The prepared objects of a role that an expression certainly is; empty if it may be anything else."""
        values = self.resolver.values(node)
        if values and all(v.role is role and self.resolver.is_prepared(v) for v in values):
            return values
        return ()

    def original(self, value: Value) -> Value:
        """What `prepare` was given."""
        return self.resolver.original(value)

    @cached_property
    def prepared_arguments(self) -> list[tuple[ast.expr, ast.Call]]:
        """What `prepare` is given, with the calls."""
        for call in self.calls:
            self.resolver.values(call)
        return [(node, call) for node, call in self.resolver.prepared.items() if isinstance(node, ast.expr)]

    def was_prepared(self, value: Value, argument: ast.AST) -> bool:
        """Whether what `prepare` is given was prepared before."""
        return self.resolver.is_prepared(value) and value.origin is not argument

    @cached_property
    def originals(self) -> set[Key]:
        """The objects that are given to `prepare`."""
        return {key(v) for node, _ in self.prepared_arguments for v in self.resolver.values(node)}

    def is_given(self, value: Value) -> bool:
        """Whether an object is given to `prepare` somewhere."""
        return key(value) in self.originals or self.resolver.is_prepared(value)

    @cached_property
    def unknown_given(self) -> bool:
        """Whether `prepare` is given something of which nothing is known: it may be anything."""
        starred = any(
            isinstance(a, ast.Starred) for call in self.verbs("prepare") for a in (*call.args, *call.keywords)
        )
        return starred or any(not self.resolver.values(node) for node, _ in self.prepared_arguments)

    # ---- loops

    @cached_property
    def loops(self) -> list[BatchLoop]:
        """Loops over batches."""
        return self.facts.loops.batch_loops

    def all_prepared(self, loop: BatchLoop) -> bool:
        """Whether a loop certainly draws from prepared loaders only."""
        return all(self.resolver.is_prepared(v) for v in loop.loaders)

    def layout(self, node: ast.expr) -> Shape:
        """How an expression in the body of a loop over prepared loaders depends on the samples of a batch."""
        loop = self.around(node)
        if loop is None or not isinstance(loop.node, (ast.For, ast.AsyncFor)) or not self.all_prepared(loop):
            return Layout.UNKNOWN
        batch = self.facts.collated.batch(self.original(v) for v in loop.loaders)
        layouts = self.facts.layouts
        env: Environment = {}
        layouts.assign(loop.node.target, dealt(self.resolver.values(loop.node.iter), batch), env)
        before = layouts.before(node, loop.node.body, env)
        return Layout.UNKNOWN if before is None else layouts.read(node, before)

    def around(self, node: ast.AST) -> BatchLoop | None:
        """The innermost loop over batches around a node, in its function."""
        known = {loop.node: loop for loop in self.loops}
        return next((known[n] for n in self.index.enclosing_loops(node) if n in known), None)

    @cached_property
    def joined(self) -> dict[tuple[Scope, str], ast.Call]:
        """Variables whose value gets into a collective operation, with the operation."""
        found: dict[tuple[Scope, str], ast.Call] = {}
        for call in self.calls:
            if not self.together.of(call) or self.together.verb(call) in ("prepare", "backward"):
                continue
            for argument in (*call.args, *(k.value for k in call.keywords)):
                for part in self.flow.sources(argument, self.flow.names_prepared):
                    if isinstance(part, ast.Name):
                        owner = self.index.scope(part).owner(part.id)
                        if owner is not None:
                            found.setdefault((owner, part.id), call)
        return found

    def shared_among(self, value: ast.AST) -> bool:
        """Whether a value may be divided by the number of processes."""
        for node in walk(self.index.tree):
            given: tuple[ast.expr, ast.expr] | None = None
            if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, (ast.Div, ast.FloorDiv)):
                given = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
            if given is None or not any(map(self._counts, self.flow.sources(given[1]))):
                continue
            home = self.index.function(node) is self.index.function(value)
            if (home and self.onwards.holds(given[0], value)) or value in self.flow.sources(given[0]):
                return True
        return False

    def _counts(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in ("num_processes", "get_world_size", "world_size")

    def mentions(self, word: str) -> bool:
        """Whether the script mentions a name anywhere, as a variable, attribute or argument."""
        return word in self._words

    @cached_property
    def seeds(self) -> bool:
        """Whether the script may seed its random numbers. Names are read here only to be silent."""
        imported = {b.name for bs in self.index.module.bindings.values() for b in bs}
        return any("seed" in word.lower() or "determin" in word.lower() for word in self._words | imported)

    @cached_property
    def _words(self) -> set[str]:
        found = set(self.index.attributes)
        for node in walk(self.index.tree):
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, (ast.keyword, ast.arg)) and node.arg:
                found.add(node.arg)
        return found

    @cached_property
    def optimizers(self) -> list[Optimizer]:
        """The optimizers that the script makes."""
        return self.facts.objects.optimizers

    def gradients_off(self, node: ast.AST) -> bool:
        """Whether a node only runs with gradients switched off."""
        return gradients.off(self.resolver, node)

    # ---- accumulation

    def accumulating(self, node: ast.AST) -> ast.With | None:
        """The `with accelerator.accumulate(...)` around a node, in its function."""
        for parent in self.index.chain(node):
            if isinstance(parent, ast.With) and parent is not node and any(self.accumulates(i) for i in parent.items):
                return parent
        return None

    def accumulates(self, item: ast.withitem) -> bool:
        """Whether a `with` enters `accelerator.accumulate(...)`."""
        call = item.context_expr
        return isinstance(call, ast.Call) and self.together.verb(call) == "accumulate"

    @cached_property
    def steps(self) -> ast.expr | None:
        """The number of micro-batches that the accelerator was given, unless that is certainly one."""
        steps = self.setting("gradient_accumulation_steps")
        return None if isinstance(steps, ast.Constant) and steps.value == 1 else steps
