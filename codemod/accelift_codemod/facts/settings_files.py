"""Entries of files of settings that say where something is to be: `config["device"]` of what `yaml.safe_load` gives.

Such files hold words and numbers. What `.to(...)` is given of them is therefore a device, and no type or tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from accelift_codemod.facts import whereabouts, written
from accelift_codemod.facts.command_line import CommandLine
from accelift_codemod.facts.index import FUNCTIONS, Binding, How
from accelift_codemod.facts.memo import memoised
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.values import Role

_READ = frozenset(
    "json.load json.loads yaml.load yaml.safe_load yaml.full_load toml.load toml.loads tomllib.load tomllib.loads "
    "tomli.load tomli.loads omegaconf.OmegaConf.load".split()
)
# What makes an object of such settings, whose attributes are their entries.
_HOLD = frozenset(
    "addict.Dict argparse.Namespace box.Box dotmap.DotMap easydict.EasyDict ml_collections.ConfigDict munch.Munch "
    "munch.munchify omegaconf.OmegaConf.create types.SimpleNamespace".split()
)
_KEYWORDS = frozenset({"device", "map_location"})
_DEEPEST = 4  # calls through which a device is handed


class SettingsFiles:
    """Finds these entries in one script."""

    def __init__(self, resolver: Resolver, command_line: CommandLine) -> None:
        self.resolver = resolver
        self.index = resolver.index
        self.command_line = command_line

    @memoised
    def says_where(self, node: ast.expr) -> bool:
        """Whether an expression is such an entry, by a name by which the script takes devices from its settings."""
        read = _read(node)
        return read is not None and read[1] in self._devices and self._is_entry(node) and self._is_plain(read[1])

    @cached_property
    def _devices(self) -> frozenset[object]:
        """The names of the entries that are given to what takes a device, in a script that moves by nothing else."""
        if whereabouts.calls_cuda(self.resolver):
            return frozenset()
        taken = [call.args[0] for call in self.index.methods.get("to", ()) if len(call.args) == 1]
        for call in self.index.calls:
            taken += (k.value for k in call.keywords if k.arg in _KEYWORDS)
            if call.args and self.resolver.qualified(call.func) == "torch.device":
                taken.append(call.args[0])
        return frozenset(key for node in taken for key in self._keys(node, _DEEPEST))

    def _keys(self, node: ast.expr, depth: int) -> Iterator[object]:
        """The names of the entries that an expression may be."""
        if isinstance(node, ast.IfExp):
            yield from self._keys(node.body, depth)
            yield from self._keys(node.orelse, depth)
        elif isinstance(node, ast.Name) and depth:
            for binding in self.resolver.bindings(node):
                given = self.resolver.handed(binding) if binding.how is How.PARAMETER else [binding.value]
                for value in given:
                    if value is not None and not binding.path:
                        yield from self._keys(value, depth - 1)
        elif (read := _read(node)) is not None and self._is_entry(node):
            yield read[1]

    @cached_property
    def _set(self) -> frozenset[object]:
        """The names of the entries that the script sets itself."""
        stored = (n for n in self.index.parents if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store))
        return frozenset(n.slice.value for n in stored if isinstance(n.slice, ast.Constant))

    def _is_entry(self, node: ast.expr, depth: int = _DEEPEST) -> bool:
        """Whether an expression is an entry of a file of settings, in whose place the script puts no other."""
        root: ast.expr = node
        while (read := _read(root)) is not None:
            if isinstance(root, ast.Attribute) and self.index.attribute_bindings.get(root.attr):
                return False
            if read[1] in self._set or not self._is_filled_so(*read, depth):
                return False
            root = read[0]
        return root is not node and self._is_read(root, depth)

    def _is_read(self, node: ast.expr, depth: int) -> bool:
        """Whether an expression is what a file of settings holds, or a part of it."""
        if depth == 0:
            return False
        if isinstance(node, ast.Call) and self._holds(node, "", depth):
            return True
        bound = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
        parts = [b.value for b in bound if b.how is How.ASSIGN and b.value is not None and _read(b.value) is not None]
        if len(parts) == len(bound) > 0:
            return all(self._is_entry(part, depth - 1) for part in parts)
        values = self.resolver.values(node)
        if not values:
            return bool(bound) and all(self._is_of_hydra(b) or self._hands(b, depth) for b in bound)
        return all(value.name in _READ or self._holds(value.origin, value.name, depth) for value in values)

    def _holds(self, made: ast.AST | None, name: str, depth: int) -> bool:
        """Whether a call makes an object of settings, or gives what the command line says: `vars(args)`."""
        given = [*made.args, *(k.value for k in made.keywords)] if isinstance(made, ast.Call) else []
        if not isinstance(made, ast.Call) or len(given) != 1:
            return False
        if self.resolver.builtin(made.func) == "vars":
            return self.resolver.roles(given[0]) == {Role.ARGUMENTS}
        return name in _HOLD and self._is_read(given[0], depth - 1)

    def _is_plain(self, key: object) -> bool:
        """Whether an option of the command line by a name, if there is one, gives a word or a number."""
        option = self.command_line.options.get(key) if isinstance(key, str) else None
        kind = self.resolver.argument(option, None, "type") if option is not None else None
        return kind is None or self.resolver.builtin(kind) in ("str", "int")

    def _is_filled_so(self, container: ast.expr, key: object, depth: int) -> bool:
        """Whether what the script puts into a dict of settings is of settings, too, or another entry."""
        owner = self.index.scope(container).owner(container.id) if isinstance(container, ast.Name) else None
        if owner is None or not isinstance(container, ast.Name):
            return True
        fills = self.resolver.fills(owner, container.id)
        entries = (e for e in fills.entries if not isinstance(e.key, ast.Constant))
        return all(self._goes_through(e.value, depth) for e in entries) and all(
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "update"
            and all(depth and self._is_read(a, depth - 1) for a in call.args)
            and all(k.arg not in (None, key) for k in call.keywords)
            for call in fills.others
        )

    def _goes_through(self, node: ast.expr, depth: int) -> bool:
        """Whether a variable is what a loop takes out of settings: `for key, value in vars(args).items():`."""
        bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
        loops = [b.value if b.how is How.LOOP else None for b in bindings]
        return bool(loops) and all(
            isinstance(loop, ast.Call)
            and isinstance(loop.func, ast.Attribute)
            and loop.func.attr == "items"
            and depth > 0
            and self._is_read(loop.func.value, depth - 1)
            for loop in loops
        )

    def _hands(self, binding: Binding, depth: int) -> bool:
        """Whether every call hands a parameter what a file of settings holds."""
        given = self.resolver.handed(binding) if binding.how is How.PARAMETER else []
        return bool(given) and all(one is not None and self._is_read(one, depth - 1) for one in given)

    def _is_of_hydra(self, binding: Binding) -> bool:
        """Whether a parameter is what hydra hands a function of the settings."""
        function = binding.scope.node
        decorators = function.decorator_list if binding.how is How.PARAMETER and isinstance(function, FUNCTIONS) else []
        names = (self.resolver.qualified(d.func) for d in decorators if isinstance(d, ast.Call))
        return any(name == "hydra.main" for name in names)


def _read(node: ast.expr) -> tuple[ast.expr, object] | None:
    """What an expression reads an entry of, and by which name: `config["device"]`, `config.device`."""
    if isinstance(node, ast.Attribute):
        return node.value, node.attr
    return written.asked(node)
