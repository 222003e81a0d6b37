"""Takes a script and the files it imports for a program: which files, and what their imports bind."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from accelift_codemod.facts.index import FUNCTIONS, Binding, How, Index
from accelift_codemod.facts.torch_ops import FUNCTIONAL_LOSSES
from accelift_codemod.facts.tree import walk
from accelift_codemod.project.apart import without
from accelift_codemod.project.exports import Exports, Reference, exports, reference
from accelift_codemod.project.finder import Finder, imported
from accelift_codemod.project.naming import CannotLink, Copy
from accelift_codemod.project.program import LEVEL, Module, Program, Target, Unit, Variable, is_main, stem_of
from accelift_codemod.project.recent import parsed
from accelift_codemod.project.surface import may_train
from accelift_codemod.remembered import remembered
from accelift_codemod.source import BadSource, Source

_MOST_FILES = 200
_MOST_BYTES = 3_000_000
_CALLED = (ast.Lambda, ast.Name, ast.Attribute)  # values that may be functions


def link(
    entry: Source,
    path: Path,
    known: Collection[str] = (),
    instead: Mapping[str, Source] | None = None,
    broken: list[BadSource] | None = None,
) -> Program | None:
    """The program of a script; None if it uses nothing of another project file.

    What is `known` by its whole name is not looked into. Files are read, if nothing stands `instead` of them, by their
    paths as people see them; why some cannot be is put into what is `broken`.

    Raises:
        BadSource: the script does not parse.
        CannotLink: it cannot be taken as one program.
    """
    acting = [statement for statement in entry.tree.body if _acts(statement)]
    if not acting:
        return None  # run by itself, it does nothing
    finder = Finder(path, entry)
    if not any(finder.find(*one, finder.script) for one in _imported(entry.tree)):
        return None
    linker = Linker(entry, finder, known, instead or {}, [] if broken is None else broken)
    brought = linker.brought(acting)
    if not brought or not may_train(linker.entry.path, linker.finder, brought):
        return None
    program = linker.run()
    return program if len(program.units) > 1 else None


class Linker:
    """Answers what the imports of a script's files bind, and puts together the files that are needed."""

    def __init__(
        self,
        entry: Source,
        finder: Finder,
        known: Collection[str],
        instead: Mapping[str, Source],
        broken: list[BadSource],
    ) -> None:
        self.instead = instead
        self.broken = broken
        self.known = {tuple(name.split(".")[-2:]) for name in known}
        own = Index.of(entry.tree)
        self.entry = Unit(finder.script, "", entry.path, exports(own), entry)
        self.finder = finder
        self.loaded: dict[Path, Unit | None] = {self.entry.path: self.entry}
        self.keys: set[str] = set()
        self._exported: dict[tuple[Unit, str], Target | None] = {}
        self._stars: dict[Unit, list[Module]] = {}
        self.size = 0

    def run(self) -> Program:
        """Take the script, every file of which something that is taken uses a global, and every file that seeds random
        numbers where it is imported."""
        copies: dict[Unit, Copy] = {}
        queue = [self.entry]
        while queue:
            unit = queue.pop()
            if unit in copies:
                continue
            self.size += len(unit.source.data)
            if len(copies) >= _MOST_FILES or self.size > _MOST_BYTES:
                raise CannotLink(f"they are more than can be looked at as one program ({len(copies)})")
            copies[unit] = Copy(self, unit)
            queue += [*copies[unit].used, *(u for u in self._imports(unit) if u.exports.seeds)]
        units = self._ordered(set(copies))
        originals: dict[ast.AST, ast.AST] = {}
        body: list[ast.stmt] = []
        base = 0
        for unit in units:
            unit.base = base
            base += len(unit.source.lines) + 1
            copy = copies[unit]
            body += copy.tree.body
            originals.update(copy.originals)
            if unit.base:
                for node in copy.originals:
                    if hasattr(node, "lineno"):
                        node.lineno += unit.base
                        node.end_lineno += unit.base  # type: ignore[attr-defined]
        reads: dict[ast.AST, list[ast.alias]] = {
            name: copy.aliases.get((scope, bound), []) for copy in copies.values() for name, scope, bound in copy.reads
        }

        modules: dict[ast.AST, list[str]] = {}
        more: set[ast.AST] = set()
        for copy in copies.values():
            modules.update(copy.modules)
            more |= copy.more

        def spelled(unit: Unit, name: str) -> str | None:
            return copies[unit].spellings.get(name)

        body = without(body, units, {name for names in modules.values() for name in names})
        return Program(units, ast.Module(body, []), originals, spelled, reads, modules, more)

    def _ordered(self, units: set[Unit]) -> list[Unit]:
        """The files in the order in which their code runs: what is imported comes first."""
        found: dict[Unit, None] = {}
        entered: set[Unit] = set()
        stack: list[tuple[Unit, bool]] = [(self.entry, False)]
        while stack:
            unit, done = stack.pop()
            if done:
                found.setdefault(unit)
            elif unit not in entered:
                entered.add(unit)
                stack.append((unit, True))
                stack += [(u, False) for u in reversed(self._imports(unit)) if u in units]
        rest = [u for u in units if u not in found]  # used, but only through others that are not
        return [*sorted(rest, key=lambda u: u.key), *found]

    def _imports(self, unit: Unit) -> list[Unit]:
        """The files that a file's imports run: those of packages first, what functions import last."""
        found: list[Unit] = []
        for node in sorted(unit.index.imports, key=lambda n: unit.index.function(n) is not None):
            for name, level in imported(node):
                own = self.finder.files("", level, unit.path) if level and name else ()
                for path in (*own, *self.finder.files(name, level, unit.path)):
                    module = self._at(path)
                    if module is not None and module.unit is not None:
                        found.append(module.unit)
        return list(dict.fromkeys(found))

    # ---- files

    def module(self, name: str, level: int, importer: Unit) -> Module | None:
        """The project's module of a name; None if the project has none, or it is the script itself, run again."""
        place = self.finder.find(name, level, importer.path)
        if place is None:
            return None
        return self._at(place)

    def _at(self, place: Path) -> Module | None:
        path, folder = _place(place)
        if folder:
            return Module(place, None)
        if path not in self.loaded:
            self.loaded[path] = self._load(path)
        unit = self.loaded[path]
        return None if unit is None or unit is self.entry else Module(path, unit)

    def _load(self, path: Path) -> Unit | None:
        shown = _beside(path, self.entry)
        own = self.instead.get(shown)
        known = _exports(path, shown) if own is None else exports(Index.of(own.tree))
        if isinstance(known, BadSource):
            self.broken.append(known)
            return None
        parts = path.with_suffix("").parts
        named = parts[:-1] if parts[-1] == "__init__" else parts
        for length in range(1, len(named) + 1):
            key = LEVEL.join(re.sub(r"\W", "_", p) for p in named[-length:])
            if key not in self.keys:
                break
        self.keys.add(key)
        return Unit(path, key, shown, known, own)

    # ---- names

    def brought(self, acting: list[ast.stmt]) -> list[ast.Import | ast.ImportFrom]:
        """The imports by which statements of the script, and what they use of it, use other files of the project."""
        index = self.entry.index
        ours = [s for s in index.imports if any(self.finder.find(*one, self.entry.path) for one in imported(s))]
        if not ours or any(alias.name == "*" for statement in ours for alias in statement.names):
            return ours  # of names that come from a star it is not known which file they are of
        found: dict[ast.Import | ast.ImportFrom, None] = {}
        queue = [*acting]
        looked_at = set(acting)
        seen: set[Binding] = set()
        while queue:
            for name in walk(queue.pop()):
                owner = index.scope(name).owner(name.id) if isinstance(name, ast.Name) else None
                for binding in owner.bindings[name.id] if owner is not None else ():  # type: ignore[attr-defined]
                    if binding in seen:
                        continue
                    seen.add(binding)
                    statement = index.statement(binding.node)
                    if isinstance(statement, (ast.Import, ast.ImportFrom)):
                        if statement in ours:
                            found[statement] = None
                    elif statement not in looked_at:
                        looked_at.add(statement)
                        queue.append(statement)
        return list(found)

    def imported(self, unit: Unit, binding: Binding) -> Target | None:
        """What an import in a file binds, if that is the project's."""
        return self._named(unit, reference(unit.index, binding.node)) if binding.how is How.IMPORT else None

    def _named(self, unit: Unit, named: Reference) -> Target | None:
        module = self.module(named.module, named.level, unit)
        return module if module is None or not named.name else self.attribute(module, named.name)

    def stars(self, unit: Unit) -> list[Module]:
        """The project's modules from which a file imports everything."""
        if unit not in self._stars:
            modules = [self.module(star.module, star.level, unit) for star in unit.exports.stars]
            self._stars[unit] = [module for module in modules if module is not None]
        return self._stars[unit]

    def attribute(self, module: Module, name: str) -> Target | None:
        """What a module's attribute is."""
        if module.unit is not None:
            found = self.exported(module.unit, name)
            if found is not None:
                return found
        if module.unit is None or module.path.name == "__init__.py":
            folder = module.path if module.unit is None else module.path.parent
            place = self.finder.below(folder, name)
            return self._at(place) if place is not None else None
        return None

    def members(self, module: Module) -> list[Variable]:
        """The classes and functions of a module: those that it defines; of one that only imports some, these."""
        unit = module.unit
        if unit is None:
            return []
        names = dict.fromkeys(unit.exports.names)
        for star in self.stars(unit):
            if star.unit is not None:
                names.update(dict.fromkeys(filter(star.unit.exports.public, star.unit.exports.names)))
        found = (self.exported(unit, name) for name in names if not name.startswith("_"))
        known = [v for v in dict.fromkeys(found) if isinstance(v, Variable) and v.unit.defines(v.name)]
        own = [v for v in known if v.unit is unit]
        return known if unit.path.name == "__init__.py" else own or known

    def has_more(self, module: Module) -> bool:
        """Whether a module has functions and classes besides its members: other files', some that are defined twice or
        have another name, losses of torch."""
        unit = module.unit
        if unit is None:
            return False
        told = self.members(module)
        if any(f"{star.module}.".startswith("torch.nn.") for star in unit.exports.stars):
            return True
        for name, bindings in unit.index.module.bindings.items():
            target = self.exported(unit, name)
            if name.startswith("_") or target in told:
                continue
            if isinstance(target, Variable) and target.unit.defines(target.name):
                return True
            if any(b.how in (How.FUNCTION, How.CLASS) or isinstance(b.value, _CALLED) for b in bindings):
                return True
            if any(r.name in FUNCTIONAL_LOSSES for r in unit.exports.imports.get(name, ())):
                return True
        return False

    def exported(self, unit: Unit, name: str) -> Target | None:
        """The global of a file that goes by a name in it; None if there is none, or it may be bound again later."""
        if (unit, name) not in self._exported:
            self._exported[unit, name] = None  # while it is looked for: files may import each other
            self._exported[unit, name] = self._export(unit, name)
        return self._exported[unit, name]

    def _export(self, unit: Unit, name: str) -> Target | None:
        if (stem_of(unit.path), name) in self.known:
            return None
        if name not in unit.exports.names:
            stars = reversed(self.stars(unit))
            from_stars = (self.attribute(s, name) for s in stars if s.unit and s.unit.exports.public(name))
            return next((found for found in from_stars if found is not None), None)
        found_all = {self._named(unit, one) for one in unit.exports.imports.get(name, ())}
        if len(found_all) == 1 and None not in found_all:
            return found_all.pop()
        if unit.exports.names[name]:
            return None  # what was imported is the object of before
        return Variable(unit, name)


@remembered
def _exports(path: Path, shown: str) -> Exports | BadSource:
    """The globals of a file, or why it cannot be read, or does not parse."""
    try:
        return exports(Index.of(parsed(path, shown).tree))
    except BadSource as error:
        return error
    except RecursionError:
        return BadSource(shown, 0, "nests too deeply to be looked at", "split the deepest expression")


@remembered
def _place(path: Path) -> tuple[Path, bool]:
    """Where links lead in the end, and whether that is a folder."""
    return path.resolve(), path.is_dir()


def _imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The modules that imports of a file may bring."""
    return (one for s in walk(tree) if isinstance(s, (ast.Import, ast.ImportFrom)) for one in imported(s))


def _acts(statement: ast.stmt) -> bool:
    """Whether a statement outside functions may do more than bind names and import."""
    if isinstance(statement, ast.If) and is_main(statement.test):
        return True
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)):
        return False
    if isinstance(statement, (ast.If, ast.Try, ast.With)):
        return any(_acts(s) for s in ast.iter_child_nodes(statement) if isinstance(s, ast.stmt))
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
        return isinstance(statement.value.func, ast.Name)
    return isinstance(statement, (ast.For, ast.While)) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    )


def _beside(path: Path, entry: Unit) -> str:
    """A file's path, written as the script's is."""
    given = Path(entry.source.path)
    if given.is_absolute():
        return str(path)
    shown = os.path.normpath(given.parent / os.path.relpath(path, entry.path.parent))
    return shown if os.path.realpath(shown) == str(path) else os.path.relpath(path)  # the script is a link
