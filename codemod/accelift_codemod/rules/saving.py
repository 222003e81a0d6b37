"""Saves once, and waits for the file before loading it again."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, files, library, paths, position, signatures
from accelift_codemod.facts.tree import walk
from accelift_codemod.measured import meeting
from accelift_codemod.measured.shares import named_after_samples
from accelift_codemod.plan import Edit, Finding, Need, Operation, Severity
from accelift_codemod.reach import states
from accelift_codemod.rules import Rule

_RULE = "SAVE"
_ONCE = "one process writes the checkpoint, not all of them"
_WRITE = (library.SIDE_EFFECTS - library.HARMLESS_EVERYWHERE) | {"torch.save", "torch.serialization.save"}
# Libraries of which it is known what they write.
_KNOWN = {"torch", "torchvision", "transformers", "numpy", "wandb", "mlflow", "accelerate", "accelift"} | (
    sys.stdlib_module_names
)
_PATHS = frozenset({"os.path.join", "pathlib.Path"})
_FILE = re.compile(r".*(/|\.\w{1,12}$)", re.DOTALL)


class Saving(Rule):
    """Writes `accelerator.save(...)` for `torch.save(...)`: the main process writes, and never half a file.

    A checkpoint that the script loads again after training has begun, or may have saved in an earlier call or
    iteration, is read by every process, so each one first waits until it has been written; before it looks for it, if
    it does. A network that was saved whole comes to the process's own device. What is saved before training begins is
    left alone and reported unless it is a checkpoint: prepared data, say, may be read in ways that are not followed.
    Where torch.save, or another function that writes a file, is handed to others, that is reported; so are functions of
    which nothing is known, if they are given a model, or the state of one, and the path of a file, and objects that
    were given a model and are told to save. What is saved to files that are named after samples, each process saves of
    its own share.
    """

    code = _RULE
    name = "checkpoints"
    before = """\
torch.save(model.state_dict(), "best.pt")
"""
    after = """\
accelerator.save(accelerator.unwrap_model(model).state_dict(), "best.pt")
"""

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        saves: list[ast.Call] = []
        for call in draft.calls:
            if draft.facts.resolver.qualified(call.func) in ("torch.save", "torch.serialization.save"):
                if draft.in_memory(call) or draft.cached(call) or named_after_samples(draft, call):
                    continue
                if draft.facts.unfollowed(call) is not None:
                    saves.append(call)
                    yield self._save_unfollowed(draft, call)
                    continue
                if not draft.after_training(call) and not self._is_checkpoint(draft, call):
                    yield draft.finding(
                        "SAVE-RACE",
                        Severity.WARNING,
                        call,
                        "every process saves this file, for it may be read again before training begins",
                        "save it once before launching, or under `with accelerator.main_process_first():`",
                    )
                    continue
                saves.append(call)
                yield from self._save(draft, call)
        loads = (c for c in draft.calls if draft.facts.resolver.qualified(c.func) == "torch.load")
        reads = [c for c in loads if saves and self._reads_back(draft, c, saves)]
        parted = {read: meeting.parting_reads(draft, read) for read in reads}
        yield from (meeting.unawaited(draft, read, test) for read, test in parted.items() if test is not None)
        yield from draft.awaited(_RULE, (self._looked_for(draft, r) for r, test in parted.items() if test is None))
        for read in (c for c in reads if self._loads_network(draft, c, saves)):
            reason = "the file has the network on the GPU of the main process"
            place = "map_location={accelerator}.device"
            yield draft.edit(_RULE, read, Operation.ADD_ARGUMENT, reason, place, need=Need.WEAK)
        for node in self._handed_on(draft):
            yield draft.finding(
                "SAVE-RACE",
                Severity.WARNING,
                node,
                f"`{draft.facts.segment(node)}` is handed on, and writes on every process, whoever calls it",
                "hand it on under `if accelerator.is_main_process:`, or call it there",
            )

        for call in draft.calls:
            if self._may_save_it(draft, call):
                yield draft.finding(
                    "SAVE-RACE",
                    Severity.WARNING,
                    call,
                    f"nothing is known of `{draft.facts.segment(call.func)}`, whose object was given a model: if it "
                    "saves that to a file, all processes write the same one",
                    "if it does, call it under `if accelerator.is_main_process:`",
                )
            elif self._may_save(draft, call):
                yield draft.finding(
                    "SAVE-RACE",
                    Severity.WARNING,
                    call,
                    f"nothing is known of `{draft.facts.segment(call.func)}`, which every process gives a model, or "
                    "the state of one: if it saves that to a file, all of them write the same one",
                    "if it does, call it under `if accelerator.is_main_process:`, with accelerator.unwrap_model(model)",
                )

    def _may_save_it(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a method of this name is called once there is something to save, of an object of which nothing is
        known but that it was given a model: `checkpointer.save("last")`."""
        resolver = draft.facts.resolver
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "save" or resolver.callee(call) is not None:
            return False
        kept = resolver.values(call.func.value)
        foreign = [v for v in kept if v.role is Role.OBJECT and v.name and v.name.partition(".")[0] not in _KNOWN]
        made = [v.origin for v in foreign if isinstance(v.origin, ast.Call)]
        given = (a for one in made for a in (*one.args, *(k.value for k in one.keywords)))
        if not any(draft.facts.objects.models(argument) for argument in given):
            return False
        return draft.after_training(call) and not draft.guarded(call)

    def _may_save(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a function of which nothing is known is given a model and a path, once there is one to save."""
        resolver = draft.facts.resolver
        names = {resolver.library_function(call.func) or ""}
        if isinstance(call.func, ast.Attribute):
            names |= {v.name for v in resolver.values(call.func.value) if v.role is Role.OBJECT}
        foreign = [name for name in names if name]
        if not foreign or any(name.partition(".")[0] in _KNOWN for name in foreign):
            return False
        if resolver.callee(call) is not None:
            return False
        given = [*call.args, *(k.value for k in call.keywords)]
        if not any(self._is_state(draft, one) for one in given):
            return False
        if not any(_is_path(draft, one) for one in given) and not self._is_handed_a_state(draft, call):
            return False
        return draft.after_training(call) and not draft.guarded(call)

    def _is_handed_a_state(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a function is given a state dict, and gives nothing back: `save({"net": net.state_dict()})`."""
        states = (n for a in (*call.args, *(k.value for k in call.keywords)) for n in walk(a))
        handed = any(isinstance(n, ast.Attribute) and n.attr == "state_dict" for n in states)
        plain = draft.facts.resolver.library_function(call.func) is not None
        return handed and plain and isinstance(draft.facts.index.parents.get(call), ast.Expr)

    def _handed_on(self, draft: Draft) -> Iterator[ast.expr]:
        """Functions of libraries that write files, where others get to call them: `Thread(target=torch.save)`."""
        index, resolver = draft.facts.index, draft.facts.resolver
        nodes: list[ast.Name | ast.Attribute] = [a for read in index.attributes.values() for a in read]
        nodes += (n for scope in index.scopes.values() for loads in scope.loads.values() for n in loads)
        found: list[ast.expr] = []
        for node in nodes:
            parent = index.parents.get(node)
            handed = isinstance(parent, (ast.Call, ast.keyword, ast.Assign, ast.Dict, ast.List, ast.Tuple))
            if handed and isinstance(node.ctx, ast.Load) and getattr(parent, "func", None) is not node:
                if resolver.qualified(node) in _WRITE and draft.facts.runs(node) and not draft.guarded(node):
                    found.append(node)
        yield from sorted(found, key=position)

    def _reads_back(self, draft: Draft, load: ast.Call, saves: list[ast.Call]) -> bool:
        """Whether a call may load what was saved: in training, or before in an earlier call, line or iteration."""
        resolver = draft.facts.resolver
        read, written = resolver.argument(load, 0, "f"), (resolver.argument(save, 1, "f") for save in saves)
        if all(paths.apart(resolver, read, path) for path in written):
            return False  # it has another ending
        if draft.after_training(load):
            return any(self._may_precede(draft, save, load) for save in saves)
        if draft.facts.unfollowed(load) is not None:
            return False
        path = self._constants(draft, draft.facts.resolver.argument(load, 0, "f"))
        for save in saves:
            saved = self._constants(draft, draft.facts.resolver.argument(save, 1, "f"))
            if path and saved and not path & saved:
                continue
            if draft.blueprint.timeline.alternate(load, save) or draft.follows(load, [save]):
                return True
        return False

    def _may_precede(self, draft: Draft, save: ast.Call, load: ast.Call) -> bool:
        """Whether a call may save before another one loads: it does not come after that, or it is not known when."""
        timeline = draft.blueprint.timeline
        known = draft.facts.unfollowed(save) is None and timeline.places(save, None)
        return not known or timeline.alternate(load, save) or draft.follows(load, [save])

    def _loads_network(self, draft: Draft, load: ast.Call, saves: list[ast.Call]) -> bool:
        """Whether a call loads a whole network where it has been saved from, and nothing moves it from there."""
        resolver = draft.facts.resolver
        read = resolver.argument(load, 0, "f")
        matching = [s for s in saves if not paths.apart(resolver, read, resolver.argument(s, 1, "f"))]
        saved = [resolver.argument(s, 0, "obj") for s in matching]
        if not signatures.is_told(load) or any(k.arg == "map_location" for k in load.keywords) or len(load.args) > 1:
            return False
        if not saved or not all(one is not None and draft.facts.objects.models(one) for one in saved):
            return False
        if any(self._may_be_away(draft, one) for one in saved if one is not None):
            return False
        moved = [n.value for name in ("to", "cuda", "cpu") for n in draft.facts.index.attributes.get(name, ())]
        held = (b.value for n in moved if isinstance(n, ast.Name) for b in resolver.bindings(n))
        return load not in moved and load not in held

    def _may_be_away(self, draft: Draft, saved: ast.expr) -> bool:
        """Whether a network may have been moved to the CPU before it is saved: it is loaded there, then."""
        bound = draft.facts.resolver.bindings(saved) if isinstance(saved, ast.Name) else []
        made = [saved, *(b.value for b in bound if b.value is not None)]
        away = [call.func.value for call in draft.facts.moves.away]  # type: ignore[attr-defined]
        values = {v for one in made for v in draft.facts.resolver.values(one)}
        inside = {n for one in made for n in walk(one)}
        return any(receiver in inside or values & {*draft.facts.resolver.values(receiver)} for receiver in away)

    def _is_checkpoint(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call saves a model or the state of one, or of an optimizer, for which torch.load alone asks."""
        return self._is_state(draft, draft.facts.resolver.argument(call, 0, "obj"))

    def _is_state(self, draft: Draft, saved: ast.expr | None) -> bool:
        """Whether an expression is a model or an optimizer, or holds the state of one."""
        bindings = draft.facts.resolver.bindings(saved) if isinstance(saved, ast.Name) else []
        parts = (n for source in (saved, *(b.value for b in bindings)) if source is not None for n in walk(source))
        states = (n.value for n in parts if isinstance(n, ast.Attribute) and n.attr == "state_dict")
        held = [node for node in (saved, *states) if node is not None]
        roles, models = draft.facts.resolver.roles, draft.facts.objects.models
        return any(roles(node) & {Role.MODEL, Role.OPTIMIZER} or models(node) for node in held)

    def _constants(self, draft: Draft, path: ast.expr | None) -> set[object]:
        """What a path may be, if it is written out; empty if that is not known."""
        values = draft.facts.resolver.values(path)
        told = all(v.role is Role.CONSTANT for v in values)
        return {k for v in values for k in v.keys if k is not None} if told else set()

    def _looked_for(self, draft: Draft, load: ast.Call) -> ast.Call:
        """A call that loads a file, or the one before it, in the same function, that finds it: `glob.glob("*.pt")`."""
        path = draft.facts.resolver.argument(load, 0, "f")
        call = files.listing(draft.facts.resolver, path) if path is not None else None
        same = call is not None and draft.function(call) is draft.function(load)
        if call is not None and draft.after_training(load) and not draft.after_training(call):
            return load  # what was listed before there was anything to load named a new folder, say
        return call if call is not None and same and position(call) < position(load) else load

    def _opens(self, draft: Draft, call: ast.Call) -> bool:
        """Whether the file is opened where it is given: by every process, each time from its beginning."""
        functions = (
            n.func for n in walk(draft.facts.resolver.argument(call, 1, "f") or call) if isinstance(n, ast.Call)
        )
        return any(isinstance(function, ast.Attribute) and function.attr == "open" for function in functions)

    def _save_unfollowed(self, draft: Draft, call: ast.Call) -> Edit | Finding:
        """What becomes of a call in a class that cannot keep the accelerator: the state of the processes may do."""
        finding = draft.finding(
            "SAVE-RACE",
            Severity.WARNING,
            call,
            "every process saves this file, for the accelerator does not reach methods of classes yet",
            "save it under `if accelerator.is_main_process:`, with the accelerator passed to the class",
        )
        statement = draft.facts.index.statement(call)
        plain = isinstance(statement, ast.Expr) and statement.value is call and draft.collective(statement) is None
        if not plain or draft.guarded(call) or not self._is_checkpoint(draft, call) or self._read_apart(draft, call):
            return finding
        header = "if {accelerator}.is_main_process:"
        return draft.edit(_RULE, statement, Operation.ENCLOSE, _ONCE, header, need=Need.WEAK, otherwise=finding)

    def _read_apart(self, draft: Draft, save: ast.Call) -> bool:
        """Whether a class that cannot keep the accelerator may load what is saved: nothing would wait for the file."""
        resolver = draft.facts.resolver
        loads = (c for c in draft.calls if resolver.qualified(c.func) == "torch.load")
        reads = [resolver.argument(c, 0, "f") for c in loads if draft.facts.unfollowed(c) is not None]
        return not all(paths.apart(resolver, read, resolver.argument(save, 1, "f")) for read in reads)

    def _save(self, draft: Draft, call: ast.Call) -> Iterator[Edit | Finding]:
        plain = len(call.args) + len(call.keywords) == 2 and all(k.arg in ("f", "obj") for k in call.keywords)
        statement = draft.facts.index.statement(call)
        guarded = draft.guarded(call)
        if guarded and not plain:
            return
        as_it_is = plain and not self._opens(draft, call) and not states.stays(draft, call)
        if guarded or as_it_is or not isinstance(statement, ast.Expr):
            yield draft.edit(_RULE, call.func, Operation.BECOME, _ONCE, "{accelerator}.save", need=Need.STRONG)
        elif draft.collective(statement) is not None:
            yield draft.finding(
                "COLL-MAIN",
                Severity.ERROR,
                statement,
                "what is saved is computed by all processes together, so the line is not guarded",
                "compute the value on a line of its own, and save it under `if accelerator.is_main_process:`",
            )
        else:
            yield draft.edit(
                _RULE,
                statement,
                Operation.ENCLOSE,
                _ONCE,
                "if {accelerator}.is_main_process:",
                need=Need.STRONG,
            )


def _is_path(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression surely is the path of a file: it is joined of parts, or has a slash or an ending."""
    for part in paths.parts(draft.facts.resolver, node):
        if isinstance(part, ast.Call) and draft.facts.resolver.qualified(part.func) in _PATHS:
            return True
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and _FILE.match(part.value):
            return True
    return False
