"""Attributes of objects: where they are read, and what is in them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role
from accelift_codemod.facts.classes import own_class


def attribute_reads(draft: Draft, stored: ast.Attribute) -> Iterator[ast.Attribute]:
    """The reads of an attribute that is set: of the same object by name, of an object of the same class."""
    declared = {own_class(draft.facts.index, stored.value), *declared_by(draft, stored.value)} - {None}
    name = ast.unparse(stored.value)
    for read in draft.facts.index.attributes.get(stored.attr, []):
        if isinstance(read.ctx, ast.Load) and read is not stored:
            same = not declared and ast.unparse(read.value) == name
            if same or declared & {own_class(draft.facts.index, read.value), *declared_by(draft, read.value)}:
                yield read


def library_made(draft: Draft, func: ast.Attribute) -> bool:
    """Whether an attribute of an object is no method, but what a library made for it: that gets what the call is given.

    `self.restore = transforms.Compose(...)`, `data.restore(x)`.
    """
    made = _makers(draft, func)
    return bool(made) and all(map(draft.facts.resolver.qualified, made))


def _makers(draft: Draft, func: ast.Attribute) -> list[ast.expr]:
    """What is called to make what an attribute of an object is set to; nothing if it is not always made by a call."""
    classes = set(declared_by(draft, func.value)) - {None}
    stores = [
        store
        for store in draft.facts.index.attributes.get(func.attr, [])
        if isinstance(store.ctx, ast.Store) and own_class(draft.facts.index, store.value) in classes
    ]
    made = [getattr(draft.facts.index.statement(store), "value", None) for store in stores]
    called = [value.func for value in made if isinstance(value, ast.Call)]
    return called if len(called) == len(made) else []


def is_layer(draft: Draft, func: ast.Attribute) -> bool:
    """Whether what is called is a layer of torch, or the forward pass of a network of the script calls what is made by
    a library, or by files that are not found: a part of the network, which keeps nothing of what it is given.

    `self.encoder = Encoder()`, and `self.encoder(x)` in `forward`; `model.decoder(z)`.
    """
    made = _makers(draft, func)
    if made and all((draft.facts.resolver.qualified(one) or "").startswith("torch.nn.") for one in made):
        return True
    function, cls = draft.facts.index.function(func), own_class(draft.facts.index, func.value)
    in_forward = function is not None and getattr(function, "name", "") == "forward"
    return in_forward and draft.facts.resolver.class_role(cls) is Role.MODEL and library_made(draft, func)


def declared_by(draft: Draft, node: ast.expr) -> list[ast.AST | None]:
    return [v.declaration for v in draft.facts.resolver.values(node)]
