"""Which scripts are left alone, for one of the reasons."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod import unsharded
from accelift_codemod.facts import BatchLoop, Facts, library, own_globals, position
from accelift_codemod.facts.index import How, Index
from accelift_codemod.facts.parts import BATCH_LIKE
from accelift_codemod.facts.reached import trains
from accelift_codemod.facts.switched_off import is_switched_off
from accelift_codemod.facts.tree import container, walk
from accelift_codemod.facts.values import Role, Values
from accelift_codemod.measured.called_back import measured
from accelift_codemod.no_loader import no_loader, not_followed
from accelift_codemod.options import Options
from accelift_codemod.project.surface import distributing
from accelift_codemod.reasons import Refused, refuse
from accelift_codemod.source import Source


def check(facts: Facts, options: Options) -> None:
    """Raise Refused for scripts of the kinds that are left alone whatever their details.

    Cheap questions come first: objects are only followed in scripts that train at module level or in functions.
    """
    _accelerate(facts)
    _distributed(facts)
    _frameworks(facts)
    _structure(facts)
    _training(facts, options)
    _several_gpus(facts)


def _imports(facts: Facts) -> list[tuple[str, int, bool]]:
    """Imported names with their line, and whether they are used."""
    found = []
    for scope in facts.index.scopes.values():
        for name, bindings in scope.bindings.items():
            for binding in bindings:
                if binding.how is How.IMPORT:
                    line = binding.node.lineno  # type: ignore[attr-defined]
                    loads = facts.loads(scope, name)
                    if not facts.same_file(binding.node, facts.tree.body[-1]):
                        loads = list(filter(facts.runs, loads))  # the file is there for other scripts, too
                    found.append((binding.qualified, line, bool(loads)))
    found += ((module, 1, True) for module in facts.index.star_imports)
    return sorted(found, key=lambda item: item[1])


def already_uses(index: Index) -> tuple[str, int] | None:
    """The Accelerate library that a script imports, and where; None if it imports none."""
    for scope in index.scopes.values():
        for bindings in scope.bindings.values():
            for binding in bindings:
                root = binding.qualified.partition(".")[0]
                if binding.how is How.IMPORT and root in library.ACCELERATE:
                    return root, binding.node.lineno  # type: ignore[attr-defined]
    return None


def _accelerate(facts: Facts) -> None:
    found = already_uses(facts.index)
    if found is not None:
        root, line = found
        raise refuse("ALREADY-ACCELERATE", line, f"imports {root} already", "nothing is left to convert")


def _distributed(facts: Facts) -> None:
    problem = facts.processes.problem
    if problem is not None:
        raise _beyond(problem.node, problem.message)
    if facts.processes.managed and isinstance(facts.source, Source):  # of a program, the files are known
        found = distributing(facts.source)
        if found is not None:
            raise _beyond(found[0], f"imports {found[1].name}, which uses torch.distributed, too")


def _beyond(node: ast.AST, message: str) -> Refused:
    return refuse(
        "ALREADY-DISTRIBUTED",
        node.lineno,  # type: ignore[attr-defined]
        f"manages several processes itself, and {message}",
        "take its own distribution out first, or keep it",
    )


def _frameworks(facts: Facts) -> None:
    names = frozenset(library.FRAMEWORKS)
    for qualified, line, used in _imports(facts):
        match = library.matches(qualified, names)
        trains = all(map(_is_framework, _backward_receivers(facts)))
        if match is not None and used and (trains or _is_run(facts, match)):
            raise refuse(
                "FRAMEWORK",
                line,
                f"trains through {library.FRAMEWORKS[match]}, which distributes by itself",
                "keep the code and start it with a launcher",
            )


def _is_run(facts: Facts, framework: str) -> bool:
    """Whether a framework runs the function that trains: `Engine(update)` of Ignite."""
    functions = {facts.index.function(call) for call in facts.index.methods.get("backward", [])}
    names = frozenset({framework})
    takers = [[facts.index.parents.get(n) for n in facts.references(f)] for f in functions if f is not None]
    return len(takers) == len(functions) > 0 and all(
        any(isinstance(t, ast.Call) and library.matches(facts.resolver.qualified(t.func) or "", names) for t in taker)
        for taker in takers
    )


def _backward_receivers(facts: Facts) -> Iterator[Values]:
    """What `backward` is called of, as far as that is known."""
    for call in facts.index.methods.get("backward", []):
        yield facts.resolver.values(call.func.value)  # type: ignore[attr-defined]


def _is_framework(values: Values) -> bool:
    """Whether something is certainly an object of a framework: Fabric, in `fabric.backward(loss)`."""
    names = frozenset(library.FRAMEWORKS)
    return bool(values) and all(library.matches(v.name, names) is not None for v in values)


def _several_gpus(facts: Facts) -> None:
    """Refuse a process that computes on several GPUs."""
    first: int | None = None
    for move in facts.moves.all:
        if not facts.runs(move.call):
            continue
        cls = facts.index.enclosing_class(move.call)
        of_network = cls is not None and facts.resolver.class_role(cls) is Role.MODEL  # told where its parts go
        number = facts.devices.numbers.number(move.target, handed=of_network)
        if number is not None and first is not None and number != first:
            raise refuse(
                "MODEL-PARALLEL",
                move.call.lineno,
                f"moves things to the GPU {number} here, and others to the GPU {first}",
                "keep a network that is cut in parts as it is, or put it on one device",
            )
        first = number if first is None else first


def _structure(facts: Facts) -> None:
    """Refuse by where the backward passes stand."""
    calls = facts.index.methods.get("backward", [])
    if not calls:
        _by_hand(facts)
        raise _no_training()
    if not any(facts.runs(call) for call in calls):
        function = facts.index.function(calls[0])
        name = function.name if function else ""
        if not facts.same_file(calls[0], facts.tree.body[-1]):  # the script evaluates, say
            raise _no_training(f": nothing in it is known to run {name}(), which trains, of a file that it imports")
        asked = (node for node, by in own_globals.lookups(facts.resolver) if not isinstance(by, ast.Constant))
        by_name = next(filter(facts.runs, asked), None)
        if by_name is not None:
            raise refuse(
                "ENTRY-BY-NAME",
                by_name.lineno,
                f"`{facts.segment(by_name)}` is a function by a name that only shows when the script runs: it may be "
                f"{name}(), which trains, and cannot be followed",
                "call the functions by their names, or choose from a dict of them",
            )
        raise refuse(
            "NO-ENTRY",
            calls[0].lineno,
            f"nothing in this file runs {name}(), which trains",
            "convert the script that imports it",
        )
    run = [call for call in calls if facts.runs(call)]
    if all(is_switched_off(facts, call) for call in run):
        function = facts.index.function(run[0])
        raise _no_training(f": no call of {function.name if function else ''}() here has it train")
    if not trains(facts.written, facts.written.methods.get("backward", [])):
        _by_hand(facts)
        raise _no_training()  # the script has a trainer evaluate, say
    in_class = [call for call in calls if facts.unfollowed(call) is not None]
    if len(in_class) == len(calls):
        function = facts.index.function(in_class[0])
        name = function.name if function else "a method"
        raise in_a_class(facts, in_class[0], f"the backward pass is in the method {name}()")


def in_a_class(facts: Facts, node: ast.AST, what: str) -> Refused:
    """A refusal because the attributes of a class cannot be followed."""
    return refuse(
        "LOOP-IN-CLASS",
        node.lineno,  # type: ignore[attr-defined]
        f"{what}, whose attributes cannot be followed: {not_followed(facts, facts.unfollowed(node))}",
        "move the loop into a function that takes model, optimizer and loaders, or convert it by hand",
    )


def _no_training(why: str = "") -> Refused:
    return refuse(
        "NO-TRAINING", 0, f"runs no backward pass{why}", "nothing to distribute here; convert the script that trains"
    )


def _training(facts: Facts, options: Options) -> None:
    """Refuse by what is trained on what."""
    run = [call for call in facts.loops.backwards if facts.runs(call)]
    if not run:
        _by_hand(facts)
        raise _no_training()
    for call in run:
        if facts.unfollowed(call) is not None:
            raise in_a_class(facts, call, "a part of the training is in a class")
    _by_hand(facts)
    _between_batches(facts, run)
    _called_back(facts)
    if not any(loop.trains and facts.runs(loop.node) for loop in facts.loops.batch_loops):
        if facts.processes.managed:
            raise _beyond(run[0], "trains on batches from no DataLoader that can be followed")
        sharable = facts.handmade.sharable
        if not (sharable and options.shard_manual):
            raise Refused(unsharded.reason(facts, run[0])) if sharable else no_loader(facts, run[0])


def _called_back(facts: Facts) -> None:
    """Refuse trainers that hand themselves to functions which do more with what one process measures than show it."""
    for node, shown in measured(facts):
        function = facts.index.function(node)
        if not shown and function is not None:
            raise refuse(
                "LOOP-IN-CLASS",
                node.lineno,
                f"{function.name}(), to which the trainer hands itself, does more than show "
                f"`{facts.segment(node)}`, which is what one process has measured: processes might decide differently",
                "move what decides into the class that trains, or decide by what all processes have",
            )


def _between_batches(facts: Facts, run: list[ast.Call]) -> None:
    """Refuse generators that hand batches on and train with them, too: the loop over the batches does not show it."""
    queue = [facts.index.function(call) for call in run]
    seen = set[ast.AST | None]({None})
    while queue:
        function = queue.pop()
        if function is None or function in seen:
            continue
        seen.add(function)
        if facts.resolver.passing.hands_batches_on(function):
            raise refuse(
                "BWD-UNKNOWN",
                function.lineno,
                f"{function.name}() hands on the batches of a DataLoader, and runs a backward pass between them",
                "run the backward pass in the loop over the batches",
            )
        queue += [facts.index.function(site) for site in facts.resolver.sites(function)]


def _is_added(facts: Facts, loop: BatchLoop, node: ast.expr) -> bool:
    """Whether a loop adds something, or a part of it, to what its batches hold: `x + delta[:len(x)]`."""
    wanted = ast.unparse(node)
    for sum_ in (n for s in loop.body for n in walk(s) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Add)):
        for one, other in ((sum_.left, sum_.right), (sum_.right, sum_.left)):
            if ast.unparse(container(one)) == wanted and facts.resolver.roles(other) & BATCH_LIKE:
                return True
    return False


def _by_hand(facts: Facts) -> None:
    """Refuse loops that would be taken for an evaluation, and train, and gradients that would be those of a share."""
    for loop in filter(lambda loop: facts.runs(loop.node), facts.loops.batch_loops):
        step = facts.by_hand.step(loop)
        if step is not None:
            what = "steps an optimizer" if isinstance(step, ast.Call) else "writes gradients"
            raise refuse(
                "BWD-UNKNOWN",
                step.lineno,  # type: ignore[attr-defined]
                f"the loop in line {position(loop.node)[0]} {what} without a backward pass that is seen, so how its "
                "gradients become those of all processes is not known",
                "compute the gradients by loss.backward()",
            )
        added = facts.by_hand.added(loop) if loop.trains and not facts.processes.managed else None
        loose = facts.by_hand.loose(loop) if loop.trains else None
        if loose is not None:
            raise refuse(
                "OPT-UNKNOWN",
                loose.lineno,
                f"this loop updates `{facts.short(loose.value)}` by its gradient, and it is in no network: nothing "
                "would average the gradient over the processes",
                "it seems to be noise for each sample of a batch, of which every process may keep that for its share: "
                "convert the loop by hand, and make it for as many rows as a share has"
                if _is_added(facts, loop, loose.value)
                else "put it into a torch.nn.Module, as a torch.nn.Parameter, and use an optimizer",
            )
        if added is not None:
            raise refuse(
                "BWD-UNKNOWN",
                added.lineno,  # type: ignore[attr-defined]
                "this gives a parameter a gradient computed from the batch, outside of the backward pass: every "
                "process would have that of its own share, and parameters of its own",
                "add what is to be differentiated to the loss",
            )
