"""Takes DataParallel out: the accelerator wraps the model."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from accelift_codemod.blueprint.rebinding import has_module, is_bare
from accelift_codemod.draft import Draft
from accelift_codemod.facts import library, position, replicas
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.tree import is_spelled_out, walk
from accelift_codemod.facts.values import Role, key
from accelift_codemod.networks import checkpoint_keys, inner_wraps, scattered
from accelift_codemod.plan import Edit, Finding, Need, Operation, Severity
from accelift_codemod.reasons import Refused, refuse
from accelift_codemod.rules import Explained, Rule

_RULE = "DATAPARALLEL"
_WITHOUT = "{key.removeprefix('module.'): value for key, value in {}.items()}"


class DataParallel(Rule):
    """Removes `torch.nn.DataParallel`, which drives several GPUs from one process: with one process per GPU the
    accelerator wraps the model instead. The launch config takes over the GPUs that it named. What the wrapper was
    called with it moved to the GPU: where neither a prepared loader nor the script does that, a move is written.
    """

    code = _RULE
    name = "DataParallel"
    required = True
    before = """\
model = nn.DataParallel(model)
"""
    after = ""
    findings = (
        Explained(
            "CKPT-KEYS",
            Severity.NOTE,
            "checkpoints had other keys under DataParallel",
            "Checkpoints that the script saved under DataParallel name their parameters `module.…`; those it saves now "
            "do not. What is loaded into a network that was wrapped is stripped of the prefix; strip others yourself. "
            "It is a warning where a part of a network was wrapped: `features.module.0.weight` is "
            "`features.0.weight` now, and neither finds the other; and where the script puts the prefix in front of "
            'keys: `{"module." + k: v for ...}`.',
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        self._own(draft)
        for call in draft.calls:
            if draft.facts.resolver.qualified(call.func) == library.DATA_PARALLEL_CALL:
                yield from self._called(draft, call)
            elif self._by_hand(draft, call):
                yield from self._helped(draft, call)
        calls = [c for c in draft.calls if (draft.facts.resolver.qualified(c.func) or "") in library.DATA_PARALLEL]
        for call in calls:
            argument = draft.facts.resolver.argument(call, 0, "module")
            if argument is not None:
                yield from take_out(draft, _RULE, call, argument)
                yield from self._told(draft, call)
        if calls and keeps_checkpoints(draft, calls):
            yield checkpoints(draft, calls[0], "DataParallel")
        for node in walk(draft.facts.tree) if calls else ():
            if _adds_prefix(node) and draft.facts.runs(node):
                yield draft.finding(
                    "CKPT-KEYS",
                    Severity.WARNING,
                    node,
                    "keys get the prefix `module.` here, which a network has only under DataParallel, and there is "
                    "none any more: a state dict with such keys does not fit",
                    "load it without the prefix",
                )
        inner = [call for call in calls if inner_wraps.is_inner(draft, call)]
        if inner and inner_wraps.checkpointed(draft):
            parts = inner_wraps.attributes(draft, inner[0])
            keys = f": `{parts[0].attr}.module.…` is `{parts[0].attr}.…` now" if parts else ""
            yield draft.finding(
                "CKPT-KEYS",
                Severity.WARNING,
                inner[0],
                "the wrapper was around a part of the network, and a state dict has no `module.` for it in its keys "
                f"any more{keys}; older checkpoints do not fit",
                "take `module.` out of the keys of an older checkpoint before it is loaded",
            )
        inside = dict.fromkeys(inner_wraps.bare_reads(draft, inner))
        for read in inside:
            yield draft.edit(_RULE, read, Operation.RECEIVER, "there is no wrapper around it")
        yield from bare_reads(draft, _RULE, calls)
        wrapped = {what for call in calls for what in inner_wraps.key_of(draft, call)}
        inner_wraps.check_others(draft, inner, {*inside}, wrapped)
        yield from tolerant_loads(draft, _RULE, calls)
        yield from compared_keys(draft, _RULE, calls)
        yield from scattered.moves(draft, _RULE, calls)

    def _told(self, draft: Draft, call: ast.Call) -> Iterator[Finding]:
        """A note on GPUs that are known when the script runs: the launch config cannot take them over."""
        resolver = draft.facts.resolver
        told = resolver.argument(call, 1, "device_ids")
        if told is None:
            return
        value = resolver.set_once(told) or told
        names = [n for n in walk(value) if isinstance(n, ast.Name) and not resolver.builtin(n)]
        made = (value, *filter(None, map(resolver.set_once, names)))
        if not names or any(resolver.qualified(n) in library.COUNTS for m in made for n in walk(m)):
            return  # they are written out, or all of them
        yield draft.finding(
            "DEV-INDEX",
            Severity.NOTE,
            told,
            f"the numbers of GPUs in `{draft.facts.short(told)}` have no effect any more: each process has one GPU",
            "choose GPUs with CUDA_VISIBLE_DEVICES, or gpu_ids in the launch config",
        )

    def _own(self, draft: Draft) -> None:
        """Refuse a script with a DataParallel of its own: what it does with batches and results is not known."""
        resolver = draft.facts.resolver
        for call in draft.calls:
            helper = draft.facts.index.function(call)
            if resolver.qualified(call.func) in library.REPLICATES and not (
                helper is not None and replicas.calls_model(resolver, helper) and not draft.facts.references(helper)
            ):
                raise refuse(
                    "MODEL-PARALLEL",
                    call.lineno,
                    f"`{draft.facts.segment(call.func)}` runs a model on several GPUs from one process",
                    "call the model itself: each process has one GPU",
                )
            bases = [base for cls in resolver.ancestry(resolver.callee(call)) for base in cls.bases]
            if any((resolver.qualified(base) or "") in library.DATA_PARALLEL for base in bases):
                raise refuse(
                    "MODEL-PARALLEL",
                    call.lineno,
                    f"`{draft.facts.segment(call.func)}` is a DataParallel of the script's own, and what it does with "
                    "batches and results is not known",
                    "use the model without it: each process has one GPU",
                )

    def _called(self, draft: Draft, call: ast.Call) -> Iterator[Edit]:
        """`data_parallel(module, inputs, gpus)` is `module(inputs)`."""
        module, inputs = (draft.facts.resolver.argument(call, i, name) for i, name in enumerate(("module", "inputs")))
        more = draft.facts.resolver.argument(call, 5, "module_kwargs")
        several = isinstance(inputs, (ast.Tuple, ast.List)) or (
            more is not None and ast.unparse(more) not in ("None", "{}")
        )
        if inputs is None or several:
            raise self._several(draft, call)
        yield from self._instead(draft, call, module, [inputs])

    def _by_hand(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call runs a model on several GPUs, by a function of the script that does no more."""
        helper = draft.facts.resolver.callee(call)
        return isinstance(helper, FUNCTIONS) and replicas.calls_model(draft.facts.resolver, helper)

    def _helped(self, draft: Draft, call: ast.Call) -> Iterator[Edit]:
        """`on_all_gpus(model, *inputs)` is `model(*inputs)`."""
        if call.keywords or not call.args or any(isinstance(a, ast.Starred) for a in call.args[:1]):
            raise self._several(draft, call)
        yield from self._instead(draft, call, call.args[0], call.args[1:])

    def _several(self, draft: Draft, call: ast.Call) -> Refused:
        return refuse(
            "MODEL-PARALLEL",
            call.lineno,
            f"`{draft.facts.segment(call)}` runs a model on several GPUs from one process",
            "call the model itself: each process has one GPU",
        )

    def _instead(self, draft: Draft, call: ast.Call, module: ast.expr | None, inputs: list[ast.expr]) -> Iterator[Edit]:
        """A call of the model itself."""
        if not isinstance(module, (ast.Name, ast.Attribute, ast.Subscript)):
            raise self._several(draft, call)
        code = f"{draft.facts.segment(module)}({', '.join(map(draft.facts.segment, inputs))})"
        yield draft.edit(_RULE, call, Operation.BECOME, "each process has one GPU", code)


def _adds_prefix(node: ast.AST) -> bool:
    """Whether an expression puts the wrapper's prefix in front of a key: `"module." + key`, `f"module.{key}"`."""
    match node:
        case ast.BinOp(left=ast.Constant(value="module."), op=ast.Add()):
            return True
        case ast.JoinedStr(values=[ast.Constant(value="module."), ast.FormattedValue()]):
            return True
    return False


def saves_wrapped(draft: Draft, calls: list[ast.Call], bare: bool = False) -> bool:
    """Whether the state of a model that is wrapped, always or in one branch, is taken with the wrapper's prefix; or
    without it, if `bare`."""
    models = {key(v) for c in calls for v in draft.facts.resolver.values(c)}
    taken = (c.func.value for c in draft.facts.index.methods.get("state_dict", []) if isinstance(c.func, ast.Attribute))
    whole = (r for r in taken if is_bare(draft.facts.resolver, r) is bare)
    return any(key(v) in models for read in whole for v in draft.facts.resolver.values(read))


def keeps_checkpoints(draft: Draft, calls: list[ast.Call]) -> bool:
    """Whether checkpoints of a wrapped model have its prefix: its state is taken, and the script may write or read a
    file. By which names that is done is read here only to be silent."""
    called = (getattr(c.func, "attr", "") or getattr(c.func, "id", "") for c in draft.calls)
    words = ("save", "dump", "write", "store", "checkpoint", "ckpt")
    files = any(name == "load" or any(word in name.lower() for word in words) for name in called)
    return files and saves_wrapped(draft, calls)


def checkpoints(draft: Draft, call: ast.Call, wrapper: str) -> Finding:
    """The note on the keys of checkpoints."""
    return draft.finding(
        "CKPT-KEYS",
        Severity.NOTE,
        call,
        f"checkpoints saved under {wrapper} have the prefix `module.` in their keys; new ones do not",
        "strip the prefix when loading an old one",
    )


def take_out(draft: Draft, rule: str, call: ast.Call, argument: ast.expr) -> Iterator[Edit]:
    """Take the wrapper off a model: `model = DataParallel(model)` goes."""
    if any(has_module(draft.facts.resolver, v.declaration) for v in draft.facts.resolver.values(argument)):
        raise refuse(
            "CLASH",
            call.lineno,
            "the model has an attribute `module` of its own, which cannot be told from that of its wrapper",
            "give it another name",
        )
    reason = "the accelerator wraps the model, one process per GPU"
    statement = draft.facts.index.statement(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    same = target is not None and is_spelled_out(argument) and _is_there(draft, statement, target, argument)
    if same and isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1:
        yield draft.edit(rule, statement, Operation.DROP, reason)
    else:
        place, keyword = (0, "") if argument in call.args else (None, "module")
        yield draft.edit(rule, call, Operation.INNER, reason, keyword, place=place)


def _is_there(draft: Draft, statement: ast.stmt, target: ast.expr, argument: ast.expr) -> bool:
    """Whether the variable for the wrapper has what is wrapped already: `net = DataParallel(net)`, or
    `self.net = net.to(device)` among the statements before, after which nothing but other variables are bound."""
    wanted, given = ast.unparse(target), ast.unparse(argument)
    if wanted == given:
        return True
    for earlier in _before(draft, statement):
        only = isinstance(earlier, ast.Assign) and len(earlier.targets) == 1 and is_spelled_out(earlier.targets[0])
        bound = ast.unparse(earlier.targets[0]) if isinstance(earlier, ast.Assign) and only else ""
        if isinstance(earlier, ast.Assign) and bound == wanted:
            root = draft.facts.moves.root(earlier.value)
            return root is not None and ast.unparse(root) == given
        calls = any(isinstance(n, ast.Call) for n in walk(earlier))
        if not only or calls or any(f"{name}.".startswith(f"{bound}.") for name in (wanted, given)):
            return False
    return False


def _before(draft: Draft, statement: ast.stmt) -> Iterator[ast.stmt]:
    """The statements that have run before one, the last first; those before an `if` around it, too, that only asks what
    Python and torch know: `if len(gpus) > 1:`."""
    block, place = draft.facts.index.block(statement)
    yield from reversed(block[:place])
    around = draft.facts.index.parents.get(statement)
    calls = [n.func for n in walk(around.test) if isinstance(n, ast.Call)] if isinstance(around, ast.If) else [None]
    resolver = draft.facts.resolver
    asks = (
        f is not None and (resolver.builtin(f) or (resolver.qualified(f) or "").startswith("torch.")) for f in calls
    )
    if isinstance(around, ast.If) and all(asks):
        yield from _before(draft, around)


def _wrapped(draft: Draft, calls: list[ast.Call], node: ast.expr) -> bool:
    """Whether an expression certainly is one of the models that the calls wrap, or what is made just like one and is
    not known for a model by itself: a variable that has both has a wrapped one where the wrapper is asked for."""
    models = {key(v) for c in calls for v in draft.facts.resolver.values(c)}
    values = [v for v in draft.facts.resolver.values(node) if v.role is not Role.CONSTANT]  # not of `model = 0`
    is_model = draft.facts.objects.is_model
    made = {(v.role, v.name) for v in values if key(v) in models and v.role is Role.OBJECT and v.name}
    alike = (key(v) in models or (not is_model(v) and (v.role, v.name) in made) for v in values)
    return any(map(is_model, values)) and all(alike)


def bare_reads(draft: Draft, rule: str, calls: list[ast.Call]) -> Iterator[Edit]:
    """`model.module` is the model itself, where it is not what `prepare` returned."""
    for read in draft.facts.index.attributes.get("module", []) if calls else ():
        if not isinstance(read.ctx, ast.Load) or not draft.facts.runs(read) or not _wrapped(draft, calls, read.value):
            continue
        values = draft.facts.resolver.values(read.value)
        models = [v for v in values if draft.facts.objects.is_model(v)]
        text = draft.facts.segment(read.value)
        if all(draft.blueprint.is_prepared(v) and draft.blueprint.may_follow_prepare(read, v) for v in models):
            if len(models) < len(values):  # it may be what a library made of the model, too
                code, need = f"{{accelerator}}.unwrap_model({text})", Need.STRONG
                yield draft.edit(rule, read, Operation.BECOME, "the model has another wrapper", code, need=need)
            continue
        yield draft.edit(rule, read, Operation.BECOME, "there is no wrapper around the model", text)


def compared_keys(draft: Draft, rule: str, calls: list[ast.Call]) -> Iterator[Edit | Finding]:
    """What is compared with the state of a wrapped model key by key may have been saved under the wrapper."""
    if not calls or not saves_wrapped(draft, calls):
        return
    for other in checkpoint_keys.compared(draft, partial(_wrapped, draft, calls)):
        place = checkpoint_keys.read(draft, other)
        if place is not None:
            yield draft.edit(rule, place, Operation.SURROUND, "an older checkpoint has the wrapper's prefix", _WITHOUT)
        else:
            text = draft.facts.short(other)
            yield draft.finding(
                "CKPT-KEYS",
                Severity.WARNING,
                other,
                f"the keys of `{text}` are compared with those of the network, which have no `module.` any more: of a "
                "checkpoint that was saved under the wrapper none is found",
                f"take the prefix off: {_WITHOUT.replace('{}', text)}",
            )


def tolerant_loads(draft: Draft, rule: str, calls: list[ast.Call]) -> Iterator[Edit]:
    """What a wrapped model is loaded from was saved under the wrapper: the prefix is taken off."""
    if not saves_wrapped(draft, calls) and saves_wrapped(draft, calls, bare=True):
        return
    for call in draft.facts.index.methods.get("load_state_dict", []) if calls else ():
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        state = draft.facts.resolver.argument(call, 0, "state_dict")
        if receiver is None or state is None or not draft.facts.runs(call):
            continue
        if is_bare(draft.facts.resolver, receiver):
            continue
        if not _wrapped(draft, calls, receiver) or position(call) < position(calls[0]):
            continue
        why = "an older checkpoint has the wrapper's prefix"
        statement, name = draft.facts.index.statement(call), draft.facts.imported("torch", call)
        taken = any(_adds_prefix(n) or getattr(n, "attr", "") == "state_dict" for n in walk(state))
        own = checkpoint_keys.is_own(draft, state, partial(_wrapped, draft, calls))
        if _is_read(draft, state) or not (taken or is_spelled_out(state)):
            yield draft.edit(rule, state, Operation.SURROUND, why, _WITHOUT)
        elif name and is_spelled_out(state) and not (own and not checkpoint_keys.is_updated(draft, state)):
            if isinstance(statement, (ast.Expr, ast.Assign)):
                text = draft.facts.segment(state)
                code = f'{name}.nn.modules.utils.consume_prefix_in_state_dict_if_present({text}, "module.")'
                yield draft.edit(rule, statement, Operation.BEFORE, why, code)


def _is_read(draft: Draft, node: ast.expr) -> bool:
    """Whether an expression reads a checkpoint, and perhaps takes an entry of it."""
    while isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        node = node.value
    return isinstance(node, ast.Call) and draft.facts.resolver.qualified(node.func) == "torch.load"
