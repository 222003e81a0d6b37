"""How files are opened, and what asks whether they are there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import library
from accelift_codemod.facts.index import FUNCTIONS, Function, How
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.values import Role, Value

# What is raised where a file or folder is there already, or else covers that.
IF_THERE = frozenset("FileExistsError OSError IOError EnvironmentError Exception BaseException".split())
_READING, _WRITING = set("rbt"), set("wax+")  # the letters of a file's mode
_LISTS = library.LISTS | {"os.path.exists", "os.path.isfile", "os.path.getmtime"}
_LISTS_OF_PATHS = frozenset({"iterdir", "glob", "rglob", "exists", "is_file"})
_MOST_STEPS = 5
_WRITES = frozenset({"write", "writelines"})
_KEEPS_TO = frozenset("close closed encoding fileno flush isatty name".split())  # what of an open file does neither
_INTO = library.SIDE_EFFECTS | {"csv.DictWriter", "csv.writer"}  # what writes into a file that it is given
# What logs into one file until the end, with the place and the name of its argument; what begins others is none of it.
_LOGS: dict[str, tuple[int | None, str]] = {
    "logging.FileHandler": (0, "filename"),
    "logging.handlers.WatchedFileHandler": (0, "filename"),
    "logging.basicConfig": (None, "filename"),
}
_ASKS = frozenset({"exists", "is_file", "is_dir", "glob"})
_CHANGES = frozenset("insert update delete replace create drop alter".split())  # the first words of statements in SQL
_SUMS_UP = frozenset({"all", "any", "bool", "len", "list", "set", "sorted"})
_FINDS = frozenset("os.path.exists os.path.isfile os.path.isdir os.path.lexists os.listdir glob.glob".split())
_LOADS = frozenset("torch.load pickle.load joblib.load dill.load cloudpickle.load".split())
_MEASURES = frozenset({"os.path.getsize", "os.stat", "os.path.getmtime"})


@kept
def mode(resolver: Resolver, call: ast.Call) -> str | None:
    """The mode in which a call opens a file, or the letters of all that it may be in; None if that cannot be told, or
    if it does not open one by name."""
    qualified, default = resolver.qualified(call.func) or "", "r"
    if qualified == "os.open":
        flags = resolver.argument(call, 1, "flags")
        told = {n.attr for n in walk(flags) if isinstance(n, ast.Attribute)} if flags is not None else set()
        return "w" if told & library.WRITING_FLAGS else "r"
    if resolver.builtin(call.func) == "open":
        given = resolver.argument(call, 1, "mode") if call.args else None
    elif qualified in library.OPENS:
        place, keyword, default = library.OPENS[qualified]
        given = resolver.argument(call, place, keyword) if call.args else None
        if keyword == "flag":
            letter = default if given is None else getattr(given, "value", None)
            return library.FLAGS.get(str(letter)[:1], "r")
    elif isinstance(call.func, ast.Attribute) and call.func.attr == "open":  # a path's
        if resolver.qualified(call.func) or resolver.callee(call):
            return None
        given = resolver.argument(call, 0, "mode")
    else:
        return None
    spelled = default if given is None else "".join(_spelled(resolver, given))
    if "?" in spelled and _is_only_written(resolver, call):
        spelled = spelled.replace("?", "wa")  # whatever the command line says
    letters = "".join(dict.fromkeys(spelled))
    return letters if letters and set(letters) <= _READING | _WRITING else None


def _spelled(resolver: Resolver, node: ast.expr | None, steps: int = _MOST_STEPS) -> list[str]:
    """The modes that an expression may be, `?` for what cannot be told: by a choice, or by what a function is given."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    given: list[ast.expr | None] = []
    if steps and isinstance(node, ast.IfExp):
        given = [node.body, node.orelse]
    elif steps and isinstance(node, ast.Name):
        for binding in resolver.bindings(node):
            handed = binding.how is How.PARAMETER
            whole = binding.value if binding.how is How.ASSIGN and not binding.path else None
            given += resolver.handed(binding) if handed else [whole]
    return [mode for part in given for mode in _spelled(resolver, part, steps - 1)] or ["?"]


def log_file(resolver: Resolver, call: ast.Call) -> ast.expr | None:
    """The name of the file that a call of the logging module opens to write into; None if it opens none."""
    name = resolver.argument(call, *_LOGS.get(resolver.qualified(call.func) or "", (None, "")))
    return None if is_constant(name, None) else name


def begins_log(resolver: Resolver, call: ast.Call) -> bool:
    """Whether such a call empties the file."""
    keyword = "filemode" if resolver.qualified(call.func) == "logging.basicConfig" else "mode"
    given = resolver.argument(call, None if keyword == "filemode" else 1, keyword)
    return isinstance(given, ast.Constant) and str(given.value).startswith("w")


def writes(letters: str | None) -> bool:
    """Whether a file that is opened in a mode is written to."""
    return bool(_WRITING & set(letters or ""))


def keeps_open(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call makes an object that writes a file bit by bit, other than what open() returns."""
    qualified = resolver.qualified(call.func) or ""
    if qualified in library.DATABASES:
        return _is_changed(resolver, call)
    if qualified in library.STORES:
        modes = {"numpy.memmap": (2, "mode"), "numpy.load": (1, "mmap_mode")}
        given = resolver.argument(call, *modes[qualified]) if qualified in modes else None
        mode = given.value if isinstance(given, ast.Constant) else "r+" if qualified != "numpy.load" else None
        return mode == "w+" or (mode == "r+" and _is_written(resolver, call, library.STORES[qualified]))
    return qualified in library.WRITERS


def _is_written(resolver: Resolver, call: ast.Call, methods: frozenset[str]) -> bool:
    """Whether what a call opens, or a part of it, is written to in a variable: by a method, or by an entry."""
    index = resolver.index
    begun = (c for c in index.methods.get("begin", ()) if is_constant(resolver.argument(c, None, "write"), True))
    called = (c for name in methods for c in index.methods.get(name, ()))
    entries = (target for statement in index.items for target in statement.targets)
    changed = (*begun, *called, *entries)
    return any(_holds(resolver, node, call) for node in changed if isinstance(node, (ast.Call, ast.Subscript)))


def _is_only_written(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a script writes to what a call opens, and certainly does nothing else with it."""
    outer = resolver.index.parents.get(call)
    targets = outer.targets if isinstance(outer, ast.Assign) else [getattr(outer, "optional_vars", None)]
    uses: list[ast.AST] = []
    for target in targets:
        if isinstance(target, ast.Name):
            uses += resolver.readers(target)
        elif isinstance(target, ast.Attribute):
            uses += resolver.index.attributes.get(target.attr, ())
        else:
            return False
    done = [_done(resolver, use) for use in uses if not isinstance(getattr(use, "ctx", None), ast.Store)]
    return None not in done and any(done)


def _done(resolver: Resolver, file: ast.AST) -> bool | None:
    """Whether a use of an open file writes to it; None where something else may be done with it."""
    outer = resolver.index.parents.get(file)
    if isinstance(outer, ast.Attribute):
        return outer.attr in _WRITES if outer.attr in _WRITES | _KEEPS_TO else None
    call = resolver.index.parents.get(outer) if isinstance(outer, ast.keyword) else outer
    func = call.func if isinstance(call, ast.Call) and call.func is not file else None
    prints = isinstance(outer, ast.keyword) and outer.arg == "file" and func and resolver.builtin(func) == "print"
    return True if prints or (func and resolver.qualified(func) in _INTO) else None


def _holds(resolver: Resolver, part: ast.expr, made: ast.Call) -> bool:
    """Whether a variable of which something is a part, or what its methods give, is set to what a call makes."""
    while isinstance(part, (ast.Call, ast.Subscript, ast.Attribute)):
        bound = resolver.index.attribute_bindings.get(part.attr, ()) if isinstance(part, ast.Attribute) else ()
        if any(b.value is made and ast.unparse(b.node) == ast.unparse(part) for b in bound):
            return True
        part = part.func if isinstance(part, ast.Call) else part.value
    return isinstance(part, ast.Name) and any(b.value is made for b in resolver.bindings(part))


def _is_changed(resolver: Resolver, call: ast.Call) -> bool:
    """Whether the script changes what is in the databases that it opens, of which this one is a file."""
    name = resolver.argument(call, 0, "database")
    if isinstance(name, ast.Constant) and name.value in (":memory:", "", "sqlite://", "sqlite:///:memory:"):
        return False
    if resolver.index.methods.get("commit"):
        return True
    asked = (c.args[0] for verb in ("execute", "executemany", "executescript") for c in _methods(resolver, verb))
    texts = (n.value for a in asked for n in walk(a) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return any(text.split(None, 1)[0].lower() in _CHANGES for text in texts if text.strip())


def _methods(resolver: Resolver, name: str) -> Iterator[ast.Call]:
    """The calls of a method of any object that are given something."""
    return (call for call in resolver.index.methods.get(name, []) if call.args)


def asking(resolver: Resolver, node: ast.AST) -> Iterator[ast.If]:
    """The conditions around a node, in its function, that ask what files or folders there are, the inner ones first."""
    for parent in resolver.index.ancestors(node):
        if isinstance(parent, FUNCTIONS):
            return
        if isinstance(parent, ast.If) and asks(resolver, parent.test):
            yield parent


def asks(resolver: Resolver, test: ast.expr) -> bool:
    """Whether a test asks what files or folders there are, perhaps by a function or a property of the script."""
    functions = [n.func for n in walk(test) if isinstance(n, ast.Call)]
    return any(
        (resolver.qualified(function) or "").startswith("os.")
        or (isinstance(function, ast.Attribute) and function.attr in _ASKS)
        for function in functions
    ) or asks_inside(resolver, test)


def misses(resolver: Resolver, test: ast.expr) -> bool:
    """Whether a test that asks for files holds where there is none: `not exists(path)`, `name not in listdir(path)`."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=asked):
            return asks(resolver, asked) and not misses(resolver, asked)
        case ast.BoolOp(values=parts):
            return any(misses(resolver, part) for part in parts)
        case ast.Compare(ops=[ast.NotIn()]):
            return asks(resolver, test)
        case ast.Compare(left=asked, ops=[ast.Eq() | ast.Is()], comparators=[ast.Constant(value=0)]):
            return asks(resolver, asked)  # 0 files, or False
    return False


def unpacks(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call writes files of an archive, over those that are there."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("extract", "extractall"):
        return resolver.qualified(call.func) == "shutil.unpack_archive"
    return resolver.is_of(call.func.value, ("tarfile.", "zipfile."))


def asks_inside(resolver: Resolver, test: ast.expr, steps: int = _MOST_STEPS) -> bool:
    """Whether a function or property of the script in a test looks for files, and returns what it finds."""
    for function in _used(resolver, test) if steps else ():
        for returned in resolver.returns(function):
            value = returned.value
            if value is not None and _answers(resolver, value, steps - 1):
                return True
            if isinstance(value, ast.Constant) and isinstance(value.value, bool):
                around = (p for p in resolver.index.ancestors(returned) if isinstance(p, ast.If))
                if any(_answers(resolver, p.test, steps - 1) for p in around if p in {*walk(function)}):
                    return True
    return False


def asked_before(resolver: Resolver, node: ast.AST) -> bool:
    """Whether a condition or loop around a node, in its function, goes by what files there were before."""
    for statement in resolver.index.chain(node):
        if isinstance(statement, ast.If) and not asks(resolver, statement.test):
            if _answers(resolver, statement.test, _MOST_STEPS):
                return True
        elif isinstance(statement, ast.While):
            if asks(resolver, statement.test) or _answers(resolver, statement.test, _MOST_STEPS):
                return True
        elif isinstance(statement, ast.For) and _answers(resolver, statement.iter, _MOST_STEPS):
            return True
    return False


def _answers(resolver: Resolver, node: ast.expr, steps: int) -> bool:
    """Whether an expression is what was found out about files: a comparison, or all or any of such answers."""
    parts: list[ast.expr] = []
    if isinstance(node, ast.Call):
        if looks(resolver, node) or resolver.qualified(node.func) in _MEASURES:
            return True
        parts = node.args if resolver.builtin(node.func) in _SUMS_UP else []
    elif isinstance(node, ast.UnaryOp):
        parts = [node.operand]
    elif isinstance(node, ast.BoolOp):
        parts = node.values
    elif isinstance(node, ast.Compare):
        parts = [node.left, *node.comparators]
    elif isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        parts = [node.elt, *(part for generator in node.generators for part in (generator.iter, *generator.ifs))]
    elif isinstance(node, ast.Name) and steps:
        values = (b.value for b in resolver.bindings(node) if b.how is How.ASSIGN)
        return any(_answers(resolver, value, steps - 1) for value in values if value is not None)
    if any(_answers(resolver, part, steps) for part in parts):
        return True
    return isinstance(node, (ast.Call, ast.Attribute)) and not parts and asks_inside(resolver, node, steps)


def looks(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call tells that there is a file or folder."""
    unknown = resolver.callee(call) is None and resolver.qualified(call.func) is None
    by_path = unknown and isinstance(call.func, ast.Attribute) and call.func.attr in _ASKS
    return by_path or resolver.qualified(call.func) in _FINDS


def looked_at(resolver: Resolver, call: ast.Call) -> ast.expr | None:
    """The path by which a call tells whether there is a file or folder; None if it does not."""
    if not looks(resolver, call):
        return None
    if resolver.qualified(call.func) in _FINDS:
        return call.args[0] if call.args else None
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def _used(resolver: Resolver, test: ast.expr) -> Iterator[Function]:
    """The functions that an expression calls, and the properties that it reads."""
    for node in walk(test):
        if isinstance(node, ast.Call):
            function = resolver.callee(node)
            if isinstance(function, FUNCTIONS):
                yield function
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            itself = isinstance(node.value, ast.Name) and node.value.id == "self"
            values = () if itself else resolver.values(node.value)
            for owner in {resolver.index.enclosing_class(node)} if itself else {v.declaration for v in values}:
                method = resolver.method(owner, node.attr)
                if method is not None and any(_is_property(resolver, d) for d in method.decorator_list):
                    yield method


def _is_property(resolver: Resolver, decorator: ast.expr) -> bool:
    return resolver.builtin(decorator) == "property" or resolver.qualified(decorator) == "functools.cached_property"


def listing(resolver: Resolver, path: ast.expr, steps: int = 0) -> ast.Call | None:
    """The call that looks for the file that a path names, perhaps through variables: `glob.glob(...)`, or a function of
    the script that does."""
    for node in walk(path):
        if isinstance(node, ast.Call):
            target = resolver.callee(node)
            body = target.body if isinstance(target, FUNCTIONS) else []
            calls = [node, *(n for s in body for n in walk(s) if isinstance(n, ast.Call))]
            if any(_lists(resolver, call) for call in calls):
                return node
    names = [n for n in walk(path) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    values = (b.value for name in names for b in resolver.bindings(name) if b.how in (How.ASSIGN, How.LOOP))
    found = (listing(resolver, value, steps + 1) for value in values if value is not None and steps < _MOST_STEPS)
    return next((call for call in found if call is not None), None)


def _lists(resolver: Resolver, call: ast.Call) -> bool:
    """Whether a call asks what files there are."""
    if resolver.qualified(call.func) in _LISTS:
        return True
    unknown = resolver.callee(call) is None and resolver.qualified(call.func) is None
    return unknown and isinstance(call.func, ast.Attribute) and call.func.attr in _LISTS_OF_PATHS


def is_loaded(value: Value) -> bool:
    """Whether an object comes out of a checkpoint: where it may be a model instead, it is that model, saved whole."""
    return value.role is Role.OBJECT and value.name.partition("[")[0] in _LOADS
