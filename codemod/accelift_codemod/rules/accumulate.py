"""Gradient accumulation by hand becomes `accelerator.accumulate`, where that computes the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, position
from accelift_codemod.facts.accumulation import Gate, find_gate
from accelift_codemod.facts.effects import assignments
from accelift_codemod.facts.tree import walk
from accelift_codemod.plan import Edit, Finding, Need, Operation, Severity
from accelift_codemod.rules import Explained, Rule

_RULE = "ACCUMULATE"
_GRADIENTS = frozenset("zero_grad grad clip_grad_norm_ clip_grad_value_ clip_grad_norm get_total_norm unscale_".split())


@dataclass(frozen=True)
class Division:
    """Where the loss is divided by the number of micro-batches."""

    expression: ast.BinOp | None  # `a / k`, to become `a`
    statement: ast.stmt  # the statement of the division
    name: str  # the variable that holds the divided loss; empty if there is none
    restores: str  # the statement that divides it again for later readers; empty if there are none


class Accumulate(Rule):
    """Puts the loop body under `with accelerator.accumulate(model):`, tests `accelerator.sync_gradients` in place of
    the modulo, and leaves the division of the loss to `accelerator.backward`.

    Only two idioms compute the same that way: updates every k batches and at the last batch of the epoch, and updates
    by a counter that runs on through all epochs (with `sync_with_dataloader=False`). Any other idiom keeps its own
    arithmetic, which is right on any number of processes: gradients are then averaged after every micro-batch.
    """

    code = _RULE
    name = "gradient accumulation"
    before = """\
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x), y) / k
    loss.backward()
    if (i + 1) % k == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()
"""
    after = """\
for i, (x, y) in enumerate(loader):
    with accelerator.accumulate(model):
        loss = criterion(model(x), y)
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            optimizer.step()
            optimizer.zero_grad()
"""
    findings = (
        Explained(
            "ACC-KEPT",
            Severity.NOTE,
            "the script's own accumulation is kept",
            "Gradients are accumulated in a way that accelerator.accumulate would not compute bit for bit: the "
            "script's own arithmetic is kept. On several processes every micro-batch is averaged across them, which "
            "costs time, not accuracy.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        gates: list[tuple[BatchLoop, Gate]] = []
        for loop in draft.blueprint.train_loops:
            if loop.loaders and isinstance(loop.node, (ast.For, ast.AsyncFor)):
                gate = find_gate(draft.facts.resolver, loop)
                if gate is not None:
                    gates.append((loop, gate))
        for loop, gate in gates:
            edits = list(self._convert(draft, loop, gate)) if len(gates) == 1 else []
            if edits:
                yield from edits
            else:
                yield draft.finding(
                    "ACC-KEPT",
                    Severity.NOTE,
                    gate.node,
                    "this way of accumulating gradients is kept as it is, for accelerator.accumulate would not compute "
                    "quite the same",
                    "nothing has to be done; gradients are averaged after every micro-batch",
                )

    # ---- converting

    def _convert(self, draft: Draft, loop: BatchLoop, gate: Gate) -> Iterator[Edit]:
        if not (gate.flushes or gate.counts_on):
            return
        node = loop.node
        assert isinstance(node, (ast.For, ast.AsyncFor))
        backwards = draft.facts.loops.backwards_in(node, innermost=True)
        if len(backwards) != 1 or any(
            isinstance(p, ast.If) for p in draft.facts.index.ancestors(backwards[0]) if p in set(walk(node))
        ):
            return
        models = self._models(draft, node)
        division = self._division(draft, backwards[0], gate.steps, node)
        if division is None or not models or self._meets_gradients(node, gate):
            return
        if not draft.runtime and any(_breaks(s) for s in node.body):
            return  # Accelerate would carry the micro-batches of a loop that is left early into the next one
        reason = "the accelerator averages across processes only when it updates"
        yield draft.edit(
            _RULE,
            node.body[0],
            Operation.ENCLOSE,
            reason,
            f"with {{accelerator}}.accumulate({', '.join(models)}):",
            last=node.body[-1],
            need=Need.STRONG,
        )
        yield draft.edit(_RULE, gate.node, Operation.TEST, reason, "{accelerator}.sync_gradients", need=Need.STRONG)
        why = "accelerator.backward divides by the number of micro-batches"
        if division.expression is not None:
            yield draft.edit(_RULE, division.expression, Operation.LEFT, why)
        else:
            yield draft.edit(_RULE, division.statement, Operation.DROP, why)
        if division.restores:
            backward = draft.facts.index.statement(backwards[0])
            yield draft.edit(_RULE, backward, Operation.AFTER, "later lines read the divided loss", division.restores)

    def _models(self, draft: Draft, node: ast.For | ast.AsyncFor) -> list[str]:
        """The prepared models that the loop runs, by name."""
        found: dict[str, None] = {}
        for statement in node.body:
            for call in draft.facts.loops.own_calls(statement):
                models = draft.blueprint.prepared_models(call.func) if isinstance(call.func, ast.Name) else ()
                for model in models:
                    item = draft.blueprint.item(model)
                    found.setdefault((item.target if item is not None else "") or call.func.id)  # type: ignore[attr-defined]
        return list(found)

    def _division(
        self, draft: Draft, backward: ast.Call, steps: ast.expr, node: ast.For | ast.AsyncFor
    ) -> Division | None:
        """The one place where the loss is divided by the number of micro-batches before its backward pass."""
        loss = backward.func.value  # type: ignore[attr-defined]
        here = draft.facts.index.statement(backward)
        if (
            isinstance(loss, ast.Call)
            and isinstance(loss.func, ast.Attribute)
            and loss.func.attr == "scale"
            and loss.args
        ):
            loss = loss.args[0]
        if _divides(loss, steps):
            return Division(loss, here, "", "")
        if not isinstance(loss, ast.Name):
            return None
        owner = draft.facts.index.scope(loss).owner(loss.id)
        candidates: list[Division] = []
        for statement in node.body:
            if position(statement) >= position(here):
                break
            if (
                isinstance(statement, ast.AugAssign)
                and isinstance(statement.op, ast.Div)
                and isinstance(statement.target, ast.Name)
                and statement.target.id == loss.id
                and _same(statement.value, steps)
            ):
                candidates.append(Division(None, statement, loss.id, draft.facts.segment(statement)))
            for target, value in assignments(statement):
                if (
                    isinstance(target, ast.Name)
                    and target.id == loss.id
                    and value is not None
                    and _divides(value, steps)
                ):
                    assert isinstance(value, ast.BinOp)
                    again = f"{loss.id} = {loss.id} / {draft.facts.segment(value.right)}"
                    plain = isinstance(value.left, ast.Name) and value.left.id == loss.id
                    candidates.append(Division(None if plain else value, statement, loss.id, again))
        if len(candidates) != 1 or owner is None or owner.is_class:
            return None  # an attribute of self: any method may read it
        division = candidates[0]
        inside = set(walk(node))
        reads = draft.facts.loads(owner, loss.id)
        bindings = draft.facts.resolver.bindings
        after = [n for n in reads if n not in inside and any(b.node in inside for b in bindings(n))]
        reads = [n for n in reads if n in inside and n not in set(walk(division.statement))]
        if any(position(division.statement) < position(n) < position(here) for n in reads):
            return None
        after += [n for n in reads if position(n) > position(here) and n not in set(walk(here))]
        return division if after else Division(division.expression, division.statement, division.name, "")

    def _meets_gradients(self, node: ast.For | ast.AsyncFor, gate: Gate) -> bool:
        """Whether gradients are read, changed or cleared in the loop other than for an update.

        Between updates they are those of one process alone.
        """
        inside = set(walk(gate.node))
        return any(
            isinstance(n, ast.Attribute) and n.attr in _GRADIENTS and n not in inside
            for s in node.body
            for n in walk(s)
        ) or any(isinstance(n, ast.Name) and n.id in _GRADIENTS and n not in inside for s in node.body for n in walk(s))


def _breaks(statement: ast.stmt) -> bool:
    """Whether a statement may leave the loop in whose body it stands."""
    if isinstance(statement, ast.Break):
        return True
    inner = [] if isinstance(statement, (ast.For, ast.AsyncFor, ast.While)) else getattr(statement, "body", [])
    parts = [*inner, *getattr(statement, "orelse", []), *getattr(statement, "finalbody", [])]
    parts += (s for handler in getattr(statement, "handlers", []) for s in handler.body)
    return any(_breaks(s) for s in parts if not isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)))


def _divides(node: ast.AST, steps: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _same(node.right, steps)


def _same(left: ast.expr, right: ast.expr) -> bool:
    return ast.dump(left) == ast.dump(right)
