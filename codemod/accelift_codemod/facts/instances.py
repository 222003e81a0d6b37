"""Attributes of `self` as variables: the trees that the other facts are drawn from.

A class whose objects nobody else sets attributes of has as many variables as it has attributes: `self.model` is one
variable that all its methods see. So these attributes are replaced by names (`self.model`, dot included) in a copy of
the tree, and everything that is known of names holds for them: what they are bound to, who reads them, where an object
in them is made and used. Of several objects of the class, the variable is that of each, as the variables of a function
are those of each of its calls. The names keep the attributes' places, and every node of the copy knows the node of the
original that it stands for.

What an object keeps is in a variable then, and may itself be an object whose attributes can be followed. So this is
done in rounds, each on the tree of the one before, for as long as a round finds more.
"""

from __future__ import annotations

import ast
from collections.abc import Set
from dataclasses import dataclass, field

from accelift_codemod.facts.copying import Copier, around
from accelift_codemod.facts.index import Function, Index
from accelift_codemod.facts.inheritance import trainers
from accelift_codemod.facts.insides import Unknown, is_property
from accelift_codemod.facts.keepers import keepers
from accelift_codemod.facts.travels import Candidate, Known

__all__ = ["Instances", "Unknown", "find", "is_property"]


@dataclass
class Instances:
    """The tree to draw facts from, and the classes whose attributes are variables in it."""

    tree: ast.Module
    index: Index  # of the tree
    followed: dict[ast.ClassDef, str] = field(default_factory=dict)  # with what their methods call the object
    unknown: dict[str, Unknown] = field(default_factory=dict)  # the other classes that train, by name
    originals: dict[ast.AST, ast.AST] = field(default_factory=dict)  # empty: the tree is the original
    several: set[ast.AST] = field(default_factory=set)  # followed classes that may have more than one object
    outside: dict[ast.AST, tuple[ast.ClassDef, str]] = field(
        default_factory=dict
    )  # `trainer.epoch = 3`: which variable
    asked: dict[ast.Attribute, ast.ClassDef] = field(default_factory=dict)  # `trainer.model`: of which class
    called: dict[ast.AST, list[Function]] = field(default_factory=dict)  # `callback(self)`: functions that it keeps


def find(
    index: Index, barred: Set[ast.AST] = frozenset(), modules: Set[str] = frozenset(), apart: Set[str] = frozenset()
) -> Instances:
    """The tree of a script with the attributes of the classes that train as variables, where they can be.

    `barred` are attributes that may not be set outside of their class, `modules` the classes that are modules, `apart`
    those that are only followed if they train.
    """
    found = Instances(index.tree, index)
    training = trainers(index)
    left = {cls for cls in index.classes if cls.name in apart} - training
    classes = (training | keepers(index)) - left
    while classes:
        rest = {found.originals.get(c, c): c for c in found.index.classes if c not in found.followed}
        known = Known(_copies(found, barred), modules, found.followed, found.asked)
        ordered = sorted((rest[c] for c in classes if c in rest), key=lambda c: c.lineno)
        candidates = [Candidate(found.index, cls, known) for cls in ordered]
        reasons = {c.cls: c.unknown() for c in candidates}
        found.unknown = {cls.name: reason for cls, reason in reasons.items() if reason is not None}
        wanted = {w for c in candidates for w in c.wanted}
        new = [c for c in candidates if reasons[c.cls] is None]
        more = {found.originals.get(w, w) for w in wanted} - classes - left
        if new:
            found = _with(found, new)
        if not more and not wanted & {c.cls for c in new}:
            break
        classes |= more  # type: ignore[arg-type]
    return found


def _copies(found: Instances, nodes: Set[ast.AST]) -> frozenset[ast.AST]:
    """The nodes of the tree that stand for some of the original, or are these."""
    return frozenset(nodes | {copy for copy, original in found.originals.items() if original in nodes})


def _with(found: Instances, new: list[Candidate]) -> Instances:
    """The same with the attributes of more classes as variables."""
    fields = {field for candidate in new for field in candidate.reads()}
    index = found.index
    copier = Copier({ast.Attribute: lambda node: _variable(node) if node in fields else None}, around(index, fields))
    tree = copier.copy(found.tree)
    copies = {original: copy for copy, original in copier.originals.items()}
    names = {**found.followed, **{c.cls: c.self_name for c in new}}
    outside = found.outside | {n: (c.cls, f"{c.self_name}.{n.attr}") for c in new for n in c.outside}
    asked = found.asked | {n: c.cls for c in new for n in c.asked}
    called = found.called | {call: functions for c in new for call, functions in c.called.items()}
    several = found.several | {c.cls for c in new if c.several()}
    originals = {copy: original for copy, original in found.originals.items() if copy not in copies}
    originals |= {copy: found.originals.get(node, node) for copy, node in copier.originals.items()}
    result = Instances(
        tree,
        Index(tree),
        {copies.get(cls, cls): name for cls, name in names.items()},  # type: ignore[misc]
        found.unknown,
        originals,
        {copies.get(cls, cls) for cls in several},
        {copies.get(n, n): (copies.get(cls, cls), name) for n, (cls, name) in outside.items()},  # type: ignore[misc]
        {copies.get(n, n): copies.get(cls, cls) for n, cls in asked.items()},  # type: ignore[misc]
        {copies.get(n, n): [copies.get(f, f) for f in functions] for n, functions in called.items()},  # type: ignore[misc]
    )
    result.index.bind_outside(result.outside)
    return result


def _variable(field: ast.Attribute) -> ast.Name:
    """An attribute of self as a name."""
    assert isinstance(field.value, ast.Name)
    return ast.Name(f"{field.value.id}.{field.attr}", field.ctx)
