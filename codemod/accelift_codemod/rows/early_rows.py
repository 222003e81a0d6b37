"""What is made before a training loop for as many rows as a batch has, and used in the loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop, Binding, torch_ops
from accelift_codemod.facts.tree import walk
from accelift_codemod.rows import row_numbers
from accelift_codemod.rows.copies import name_of

DRAWS = frozenset("rand randn randint randperm normal".split())
_SPREADS = frozenset({"torch.linspace", "torch.logspace", "numpy.linspace", "numpy.logspace"})
_KEEPS = frozenset({"view", "reshape", "unflatten", "resize_"})  # as many numbers as there are, in another shape
COPIES = ("torch.tensor", "torch.as_tensor", "numpy.array", "numpy.asarray")


class EarlyRows:
    """Answers what was made before a loop for the variables that it reads."""

    def __init__(self, draft: Draft, loop: BatchLoop) -> None:
        self.draft = draft
        self.loop = loop
        self._known: dict[Binding, dict[ast.Call, None]] = {}
        self._sizes: dict[ast.Call, list[tuple[ast.expr, bool]]] = {}

    def calls(self, name: ast.Name) -> list[ast.Call]:
        """The calls before the loop that may have made what a variable holds."""
        bindings = self.draft.facts.resolver.bindings(name)
        for binding in bindings:
            if binding not in self._known:
                self._learn(binding)
        return list(dict.fromkeys(chain.from_iterable(map(self._known.__getitem__, bindings))))

    def sizes(self, name: ast.Name) -> Iterator[tuple[ast.expr, bool]]:
        """The numbers of rows of what a variable holds, and whether each row has numbers of its own: a share of it
        would be others."""
        for call in self.calls(name):
            known = self._sizes.get(call)
            if known is None:
                known = self._sizes[call] = list(self._sizes_of(call))
            yield from known

    def _sizes_of(self, call: ast.Call) -> Iterator[tuple[ast.expr, bool]]:
        qualified = self.draft.facts.resolver.qualified(call.func) or ""
        if qualified in COPIES:
            for size in row_numbers.listed(self.draft, call):
                yield size, False
        state = isinstance(call.func, ast.Attribute) and self.draft.facts.objects.models(call.func.value)
        shapes = row_numbers.shapes(call)
        if (qualified.startswith("torch.") or state or shapes) and row_numbers.takes(self.draft, call):
            own = own_rows(self.draft, call)
            for size in row_numbers.given(self.draft, call):
                yield size, own

    def _learn(self, binding: Binding) -> None:
        """Find the calls behind a binding, and behind all that it is computed from, perhaps from itself."""
        users: dict[Binding, list[Binding]] = {}  # what is computed from a binding
        queue = [binding]
        queued = {binding, *self._known}
        for one in queue:  # it grows meanwhile
            found = self._known[one] = {}
            inside = self.loop.node in self.draft.facts.index.ancestors(one.node)
            for value in walk(one.value) if one.value is not None else ():
                if inside and isinstance(value, ast.Name) and isinstance(value.ctx, ast.Load):
                    for other in self.draft.facts.resolver.bindings(value):
                        users.setdefault(other, []).append(one)
                        if other not in queued:
                            queued.add(other)
                            queue.append(other)
                elif not inside and isinstance(value, ast.Call):
                    found[value] = None
        changed = list(users)
        while changed:
            calls = self._known[one := changed.pop()]
            for user in users[one]:
                if calls.keys() - self._known[user].keys():
                    self._known[user].update(calls)
                    changed += [user] if user in users else []


def own_rows(draft: Draft, call: ast.Call, drawn: bool = True) -> bool:
    """Whether fewer rows of what a call makes would be other rows: it spreads numbers over them, or draws them, or it
    gives another shape to something that does not become shorter with it."""
    qualified = draft.facts.resolver.qualified(call.func) or ""
    func = call.func
    if qualified in _SPREADS or (drawn and (qualified.rpartition(".")[2] in DRAWS or _is_filled(draft, call))):
        return True
    if qualified or not (isinstance(func, ast.Attribute) and func.attr in _KEEPS):
        return False
    inside = [c for c in walk(func.value) if isinstance(c, ast.Call)]
    if any(own_rows(draft, c, drawn) for c in inside):
        return True
    named = {name_of(size) for size in row_numbers.given(draft, call)}
    made = (c for c in inside if row_numbers.takes(draft, c))
    return drawn and not any(name_of(size) in named for c in made for size in row_numbers.given(draft, c))


def _is_filled(draft: Draft, call: ast.Call) -> bool:
    """Whether what a call makes is filled with random numbers at once: `torch.empty(batch_size, 8).normal_()`."""
    node: ast.AST = call
    for parent in draft.facts.index.ancestors(call):
        if isinstance(parent, ast.Attribute) and parent.value is node:
            if parent.attr in torch_ops.FILLS:
                return True
        elif not (isinstance(parent, ast.Call) and parent.func is node):
            return False
        node = parent
    return False
