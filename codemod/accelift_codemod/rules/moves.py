"""Drops device moves that `prepare` makes needless, and generalises the others."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace

from accelift_codemod.blueprint.rebinding import RETURNS_SELF
from accelift_codemod.devices import copies
from accelift_codemod.devices import spelled as spelled_devices
from accelift_codemod.devices.besides import acts
from accelift_codemod.devices.copies import text_of
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, Value, library, position, written
from accelift_codemod.facts.cells import ends_cell
from accelift_codemod.facts.effects import assignments
from accelift_codemod.facts.files import is_loaded
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.moves import Move
from accelift_codemod.facts.touching import Touching
from accelift_codemod.facts.tree import is_spelled_out, walk
from accelift_codemod.networks.given_layers import gains
from accelift_codemod.plan import DEALT, Edit, Finding, Need, Operation, Severity
from accelift_codemod.rules import Explained, Rule

_RULE = "MOVE"
_TEXT = (
    "it is taken for a text there, which may stay; where it also says where something is computed, hand that "
    "accelerator.device besides"
)
_TAKEN_OUT = library.DATA_PARALLEL | library.DISTRIBUTED_DATA_PARALLEL
# What may happen to a model between its move and prepare without its device mattering.
_HARMLESS = frozenset(
    "parameters named_parameters load_state_dict state_dict train eval modules named_modules children zero_grad "
    "requires_grad_ to cuda cpu".split()
)


class Moves(Rule):
    """Removes `.to(device)` and `.cuda()` from prepared models and from the batches of prepared loaders.

    Moves of anything else stay, and mean the accelerator's device: noise, hidden states, class weights, frozen
    networks, tensors made in the loop. `.cuda()` and `.to("cuda:0")` become `.to(accelerator.device)`. A model that
    is used or initialised between its move and `prepare` keeps the move, so that random numbers are drawn on the same
    device.
    """

    code = _RULE
    name = "device moves"
    always = True
    before = """\
for x, y in loader:
    x, y = x.to(device), y.to(device)
    noise = torch.randn(len(x), 8).cuda()
"""
    after = """\
for x, y in loader:
    noise = torch.randn(len(x), 8).to(accelerator.device)
"""
    findings = (
        Explained(
            "DEV-LEFT",
            Severity.WARNING,
            "one particular GPU for every process",
            "Something is moved to one particular GPU, so every process would move it to the same one. So it is with "
            "what is moved before there is an accelerator, such as when a file is imported.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        dropped: dict[ast.stmt, list[Move]] = {}
        for move in draft.facts.moves.all:
            if not draft.facts.runs(move.call):
                continue
            if acts(draft, move.target):
                left = self._left(draft, move.call, move.target)
                yield from [left] if left is not None else []
            elif self._needless(draft, move) and copies.goes(draft, move) and not draft.relied_on(move.call):
                dropped.setdefault(draft.facts.index.statement(move.call), []).append(move)
            else:
                yield from self._general(draft, move)
        for statement, moves in dropped.items():
            yield from self._drop(draft, statement, moves)
        yield from self._literals(draft, {move.call for moves in dropped.values() for move in moves})
        yield from self._of_lists(draft)

    # ---- moves that prepare makes

    def _needless(self, draft: Draft, move: Move) -> bool:
        if not move.only_moves:
            return False
        values = draft.facts.resolver.values(move.receiver)
        if not values or draft.facts.devices.may_be_elsewhere(move.target):
            return False
        if all(v.role in (Role.BATCH, Role.DATA) for v in values):
            return self._from_prepared(draft, move.receiver, move.call)
        if all(v.role is Role.LOSS for v in values):
            return all(self._stateless(draft, v) for v in values)
        models = [v for v in values if draft.blueprint.is_prepared(v)]
        others = [v for v in values if v not in models]
        taken = not others or any(self._takes_the_place(draft, v, others) for v in models)
        return bool(models) and taken and all(self._moved_by_prepare(draft, move, v) for v in models)

    def _takes_the_place(self, draft: Draft, model: Value, others: list[Value]) -> bool:
        """Whether other values of a model's variable are what was saved whole, and are prepared in its place."""
        item = draft.blueprint.item(model)
        bindings = item.scope.bindings.get(item.name, ()) if item is not None else ()
        bound = [v for b in bindings for v in draft.facts.resolver.bound(b)]
        return all(is_loaded(v) and v in bound for v in others)

    def _from_prepared(self, draft: Draft, receiver: ast.expr, call: ast.Call) -> bool:
        """Whether an expression is a part of a batch that a prepared loader has moved already."""
        node = draft.facts.moves.root(receiver)
        if not isinstance(node, (ast.Name, ast.Subscript, ast.Attribute)):
            return False
        values = draft.facts.resolver.values(node)
        if not values or any(v.role not in (Role.BATCH, Role.DATA) for v in values):
            return False
        if draft.blueprint.seen_before(node):
            return False
        if any(v.role is Role.DATA for v in values) and not self._reshaped(draft, node):
            return False
        for value in values:
            for loader in (v for inner in value.inner for v in inner):
                if not draft.blueprint.places(loader):
                    return False
                if not draft.blueprint.after_prepare(call, loader):
                    return False
        return True

    def _reshaped(self, draft: Draft, node: ast.expr, depth: int = 0) -> bool:
        """Whether a variable was computed from a batch in a way that leaves it on its device."""
        if not isinstance(node, ast.Name) or depth > 4:
            return False
        for binding in draft.facts.resolver.bindings(node):
            if binding.value is None:
                return False
            if any(v.role is Role.DATA for v in draft.facts.resolver.bound(binding)):
                inner = draft.facts.moves.root(binding.value)
                if isinstance(inner, ast.Name) and inner is not node and self._reshaped(draft, inner, depth + 1):
                    continue
                roles = draft.facts.resolver.roles(inner)
                if roles != {Role.BATCH}:
                    return False
        return True

    def _stateless(self, draft: Draft, value: Value) -> bool:
        """Whether a loss of torch.nn holds no tensor."""
        call = value.origin
        return (
            isinstance(call, ast.Call)
            and value.declaration is None
            and value.name.startswith("torch.nn.")
            and not call.args
            and not any(k.arg in ("weight", "pos_weight", None) for k in call.keywords)
            and not draft.blueprint.is_prepared(value)
        )

    def _moved_by_prepare(self, draft: Draft, move: Move, value: Value) -> bool:
        """Whether nothing that depends on the device happens to a model between its move and prepare."""
        group, item = draft.blueprint.group(value), draft.blueprint.item(value)
        assert group is not None and item is not None  # of those that are prepared
        if item.target:
            return False  # what others do before with the network inside, is not seen here
        if any(draft.blueprint.after_prepare(node, value) for node in (move.call, move.receiver)):
            handed = draft.facts.moves.handed_on  # `keep(model.cpu)`: who calls that is not known
            left = handed or any(
                self._may_leave(draft, call, value) for call in draft.facts.moves.away if draft.facts.runs(call)
            )
            return not left and not gains(draft, value)
        return _last_minded(draft, value) < move.call.lineno and not _minded_where_moved(draft, move, value)

    def _may_leave(self, draft: Draft, call: ast.Call, value: Value) -> bool:
        """Whether a call that moves something away may move a model, so that it has to be moved back."""
        receiver = call.func.value  # type: ignore[attr-defined]
        values = draft.facts.resolver.values(receiver)
        unbound = (draft.facts.resolver.qualified(receiver) or "").startswith("torch.nn")  # `nn.Module.cpu(model)`
        return unbound or value in values or (not values and is_spelled_out(receiver))

    def _drop(self, draft: Draft, statement: ast.stmt, moves: list[Move]) -> Iterator[Edit]:
        calls = {m.call for m in moves}
        reason = "prepare puts it on the device" if self._about_model(draft, moves) else DEALT
        identities = self._identities(draft, statement, calls)
        shown = isinstance(statement, ast.Expr) and ends_cell(draft.facts, statement)
        if identities and all(identities) and not shown:
            yield draft.edit(_RULE, statement, Operation.DROP, reason, subject=moves[0].receiver)
            return
        if any(identities) and isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            yield draft.edit(_RULE, statement, Operation.UNPAIR, reason, subject=moves[0].receiver)
        for move in moves:
            copy, plain = copies.of_batch(draft, move), copies.without(draft, move)
            if plain is not None:
                node, text = plain
                yield draft.edit(_RULE, node, Operation.BECOME, reason, text, subject=move.receiver)
            elif copy is None:
                yield draft.edit(_RULE, move.call, Operation.RECEIVER, reason, subject=move.receiver)
            elif isinstance(copies.bound(draft, copy), ast.Name):
                yield draft.edit(_RULE, statement, Operation.DROP, reason, subject=move.receiver)
            else:  # unpacked at once
                whole = draft.facts.index.parents[copy]
                whole = whole if isinstance(whole, ast.Call) else copy
                text = draft.facts.segment(copy.generators[0].iter)
                yield draft.edit(_RULE, whole, Operation.BECOME, reason, text, subject=move.receiver)

    def _about_model(self, draft: Draft, moves: list[Move]) -> bool:
        roles = draft.facts.resolver.roles(moves[0].receiver)
        return not roles & {Role.BATCH, Role.DATA}

    def _identities(self, draft: Draft, statement: ast.stmt, calls: set[ast.Call]) -> list[bool]:
        """Of the variables that a statement sets, whether each is set to itself without the moves."""

        def bare(node: ast.expr) -> ast.expr:
            while isinstance(node, ast.Call):
                if node in calls and isinstance(node.func, ast.Attribute):
                    node = node.func.value
                elif (draft.facts.resolver.qualified(node.func) or "") in _TAKEN_OUT and node.args:
                    node = node.args[0]  # taken out by another rule
                else:
                    break
            return node

        if isinstance(statement, ast.Expr):
            parts = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
            if statement.value not in parts and ends_cell(draft.facts, statement):
                return []
            return [is_spelled_out(bare(part)) and part in calls for part in parts]
        found = []
        for target, value in assignments(statement):
            inner = bare(value) if value is not None else None
            if isinstance(inner, ast.DictComp):
                found.append(self._copies_dict(inner, bare, target))
            else:
                plain = isinstance(inner, (ast.Name, ast.Attribute, ast.Subscript))
                found.append(plain and inner is not None and text_of(target) == text_of(inner))
        return found

    def _copies_dict(self, node: ast.DictComp, bare: Callable[[ast.expr], ast.expr], target: ast.expr) -> bool:
        """`batch = {k: v for k, v in batch.items()}`."""
        copied = copies.copied(node, bare(node.value))
        return copied is not None and text_of(copied) == text_of(target)

    # ---- moves that stay

    def _general(self, draft: Draft, move: Move) -> Iterator[Edit | Finding]:
        if move.kind == "cuda":
            rest = "".join(f", {draft.facts.segment(r)}" for r in move.rest if isinstance(r, ast.keyword))
            yield draft.edit(
                _RULE,
                move.call,
                Operation.METHOD,
                "`.cuda()` means the device of this process",
                f"to({{accelerator}}.device{rest})",
                need=Need.WEAK,
                otherwise=self._left(draft, move.call, move.target),
            )

    def _of_lists(self, draft: Draft) -> Iterator[Finding]:
        """Moves to one of several devices that the script has listed."""
        for call in draft.facts.index.methods.get("to", []):
            target = draft.facts.resolver.argument(call, 0, "device")
            if call in draft.facts.moves.of or not draft.facts.runs(call):
                continue
            by_place = isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant)
            if target is not None and by_place and Role.DEVICE in draft.facts.resolver.roles(target):
                yield self._particular(draft, call, target)

    def _particular(self, draft: Draft, node: ast.AST, target: ast.AST) -> Finding:
        return draft.finding(
            "DEV-LEFT",
            Severity.WARNING,
            node,
            f"`{draft.facts.segment(target)}` is one particular GPU for every process",
            "use accelerator.device",
        )

    def _left(self, draft: Draft, node: ast.AST, target: ast.expr | None) -> Finding | None:
        if target is None:
            return None
        devices, named = draft.facts.devices, isinstance(target, ast.Attribute)
        if not named and not devices.numbers.is_one(written.entry(draft.facts.resolver, target) or target):
            return None
        return self._particular(draft, node, target)

    def _literals(self, draft: Draft, dropped: set[ast.Call]) -> Iterator[Edit | Finding]:
        """Device names written where a device is used."""
        for call in draft.calls:
            if call in dropped:
                continue
            move = draft.facts.moves.of.get(call)
            if (
                move is not None
                and move.kind == "to"
                and move.target in call.args
                and spelled_devices.is_spelled(draft, move.target)
            ):
                yield self._literal(draft, call, move.target, Operation.ARGUMENT, "{accelerator}.device")
            for keyword in call.keywords:
                placed = keyword.arg in ("device", "map_location") and spelled_devices.is_spelled(draft, keyword.value)
                if placed or (keyword.arg == "map_location" and spelled_devices.is_of_option(draft, keyword.value)):
                    yield self._literal(
                        draft, keyword, keyword.value, Operation.KEYWORD, f"{keyword.arg}={{accelerator}}.device"
                    )
        for call, given in spelled_devices.handed(draft):
            code = spelled_devices.kind(draft, given)
            named = next((k for k in call.keywords if k.value is given), None)
            if not spelled_devices.is_exchanged(draft, call, given):
                left = self._left(draft, given, given)
                if left is not None and spelled_devices.is_a_text(draft, call, given):
                    left = replace(left, remedy=_TEXT)
                yield from [left] if left is not None else []
            elif named is not None:
                yield self._literal(draft, named, given, Operation.KEYWORD, f"{named.arg}={code}")
            else:
                yield self._literal(draft, call, given, Operation.ARGUMENT, code)
        for read in spelled_devices.unknown_entries(draft):
            yield self._particular(draft, read, read)

    def _literal(self, draft: Draft, node: ast.AST, target: ast.expr, operation: Operation, code: str) -> Edit:
        return draft.edit(
            _RULE,
            node,
            operation,
            "the device is that of this process",
            code,
            place=node.args.index(target) if isinstance(node, ast.Call) else None,
            need=Need.WEAK,
            otherwise=self._left(draft, target, target),
        )


@kept
def _last_minded(draft: Draft, value: Value) -> int:
    """The last line before a model is prepared where something happens to it that depends on its device; 0 if there is
    none."""
    group, item = draft.blueprint.group(value), draft.blueprint.item(value)
    assert group is not None and item is not None
    end, _ = group.done
    home = draft.facts.index.function(group.anchor)
    reads: list[tuple[int, ast.Name]] = []
    for load in draft.facts.loads(item.scope, item.name):
        places = draft.blueprint.timeline.places(load, home)  # the load itself, or the calls that lead to it
        lines = [line for line in (getattr(p, "lineno", 0) for p in places) if line <= end]
        reads += [(max(lines), load)] if lines else []
    latest = sorted(reads, key=lambda read: -read[0])
    return next((line for line, load in latest if _minds(draft, load, value)), 0)


def _minded_where_moved(draft: Draft, move: Move, value: Value) -> bool:
    """The same of the function that moves a model, if it hands it to the one that prepares it."""
    facts, group = draft.facts, draft.blueprint.group(value)
    assert group is not None
    home = facts.index.function(move.call)
    if home is facts.index.function(group.anchor):
        return False
    led = min(map(position, draft.blueprint.timeline.places(group.anchor, home)), default=None)
    names = (n for n in walk(facts.index.statement(move.call)) if isinstance(n, ast.Name))
    owned = {(facts.index.scope(n).owner(n.id), n.id) for n in names}
    reads = (n for scope, name in owned if scope is not None for n in facts.loads(scope, name))
    reads = (n for n in reads if facts.index.function(n) is home and n.lineno > move.call.lineno)
    return led is not None and any(position(n) < led and _minds(draft, n, value) for n in reads)


def _minds(draft: Draft, load: ast.Name, value: Value) -> bool:
    """Whether where a model is read something happens to it that depends on its device."""
    resolver, parents = draft.facts.resolver, draft.facts.index.parents
    item = draft.blueprint.item(value)
    if not any(draft.blueprint.item(v) is item for v in resolver.values(load)):
        return False
    handed = _handed_moved(draft, load)
    parent = parents.get(handed or load)
    if isinstance(parent, ast.Attribute):
        outer = parents.get(parent)
        harmless = parent.attr in _HARMLESS or not (isinstance(outer, ast.Call) and outer.func is parent)
        return not harmless or Touching(resolver).computes(load)
    if isinstance(parent, ast.Call) and (handed or load) in parent.args:
        if resolver.builtin(parent.func) in ("print", "len", "str", "isinstance", "hasattr", "sum"):
            return False
        return all(v.origin is not value.origin for v in resolver.values(parent))  # else wrapped: DataParallel, compile
    return not isinstance(parent, (ast.Assign, ast.FormattedValue))


def _handed_moved(draft: Draft, load: ast.expr) -> ast.Call | None:
    """The moved model, where it is an argument: `net.cuda()` of `summary(net.cuda(), (3, 32, 32))`."""
    parents = draft.facts.index.parents
    node: ast.AST = load
    while isinstance(asked := parents.get(node), ast.Attribute) and asked.attr in RETURNS_SELF:
        node = parents[asked]
    outer = parents.get(node)
    return node if isinstance(node, ast.Call) and isinstance(outer, ast.Call) and node in outer.args else None
