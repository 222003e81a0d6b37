"""Names of folders and files that every process would make up for itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.chance.seeds import seeded
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, files, library, written
from accelift_codemod.facts.chance import SEEDS, drawn_from
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.own_values import OF_ITS_OWN, TIMES, is_time
from accelift_codemod.facts.tree import children, walk
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule

# What logs into a folder, and which argument names that.
_WRITERS = {
    "torch.utils.tensorboard.SummaryWriter": (0, "log_dir"),
    "torch.utils.tensorboard.writer.SummaryWriter": (0, "log_dir"),
    "tensorboardX.SummaryWriter": (0, "logdir"),
}
_RUN = ("dir", "id", "name", "path")  # of the run that a process has, if it is one that logs nothing, too
_HYDRA = "hydra.core.hydra_config.HydraConfig.get"  # its folder bears the time when a process began
_MAKES = frozenset({"os.makedirs", "os.mkdir"})
_LOOKS = library.LISTS | {"torch.load"}
_EXIST = frozenset({"os.path.exists", "os.path.isdir", "os.path.isfile", "os.path.lexists"})
_COUNTS = ("len", "max", "min", "sum", "sorted", "list", "next")  # what makes a number of a list of names
_THROUGH = ("os.path.", "pathlib.", "datetime.", "time.", "uuid.", "tempfile.", "random.", "numpy.random.")
# Libraries whose functions that write take the path first: what is written may be drawn.
_PATH_FIRST = ("numpy.", "cv2.", "skimage.", "imageio.", "matplotlib.", "scipy.")
_MOST_NODES = 400


class RunNames(Rule):
    """Reports names of folders and files that every process would make up for itself, from the time, say, and that
    more than the main process uses.

    A name in which only the main process writes, such as that of a checkpoint or of a log, may differ on the others.
    """

    code = "NAMES"
    name = "names that differ from process to process"
    findings = (
        Explained(
            "NAME-OWN",
            Severity.WARNING,
            "every process makes up a name of its own",
            "The name of a folder or a file is made of the time, of something random or of the process itself, so "
            "every process has another one. All of them make the folder or write there, or the others look for what "
            "the main process has written under its own name. Make the name on the main process, and hand it to the "
            "others with broadcast_object_list. So it is with the next free number: the others find the folder there "
            "that the main process has made.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        used: dict[ast.expr, dict[str, ast.Call]] = {}
        free: dict[ast.expr, dict[str, ast.Call]] = {}
        spelled: dict[str, ast.expr] = {}  # the first of several reads of one attribute
        for call in draft.calls:
            kind, path = self._use(draft, call)
            source = self._source(draft, path) if path is not None else None
            if source is not None:
                source = source if isinstance(source, ast.Call) else spelled.setdefault(ast.unparse(source), source)
                used.setdefault(source, {}).setdefault(kind, call)
            asked = self._source(draft, path, listed=True) if path is not None else None
            if asked is not None:
                uses = free.setdefault(asked, {})
                uses.setdefault(kind, call)
                if self._makes_folder(draft, call):
                    uses.setdefault("folder", call)
        for source, uses in used.items():
            private = isinstance(source, ast.Call) and draft.facts.resolver.qualified(source.func) in OF_ITS_OWN
            place = self._place(uses, private)
            if place is not None:
                yield self._finding(draft, source, place, "differs from process to process")
        for source, uses in free.items():
            place = self._place(uses) if "folder" in uses else None
            if place is not None:
                yield self._finding(draft, source, place, "differs once a process has made the folder")

    def _place(self, uses: dict[str, ast.Call], private: bool = False) -> ast.Call | None:
        """Where a name does harm that is another one on every process."""
        place = None if private else uses.get("writes")
        return place or uses.get("reads") if "main" in uses else place

    def _finding(self, draft: Draft, source: ast.expr, place: ast.Call, differs: str) -> Finding:
        return draft.finding(
            "NAME-OWN",
            Severity.WARNING,
            source,
            f"`{draft.facts.segment(source)}` {differs}, and so does the path that all of them use in line "
            f"{place.lineno}",
            "make the name on the main process, and hand it to the others: broadcast_object_list([name])[0]",
        )

    # ---- what paths are used for

    def _use(self, draft: Draft, call: ast.Call) -> tuple[str, ast.expr | None]:
        """What a call does with a path: it `writes` or `reads` on every process, or on the `main` one."""
        resolver = draft.facts.resolver
        qualified = resolver.qualified(call.func) or ""
        if qualified in ("torch.save", "torch.serialization.save"):
            return "main", resolver.argument(call, 1, "f")
        opened = files.mode(resolver, call)
        method = isinstance(call.func, ast.Attribute) and not qualified
        path = call.func.value if method and isinstance(call.func, ast.Attribute) else None
        kind = ""
        if self._makes_folder(draft, call):
            kind = "writes"
        elif opened is not None:
            kind = "writes" if files.writes(opened) else "reads"
        elif qualified in _LOOKS or qualified in library.READS:
            kind = "reads"
        elif qualified in library.SIDE_EFFECTS or (method and self._named(call, library.WRITES)):
            kind = "writes"
        if kind == "writes" and (self._only_main(draft, call) or (draft.edits_at(call) and opened is not None)):
            kind = "main"
        elif kind == "reads" and self._only_main(draft, call):
            kind = ""
        of_path = method and self._named(call, {"mkdir", "open", "touch", "write_text", "write_bytes", "unlink"})
        argument = path if of_path else next(iter(call.args), None)
        anywhere = qualified in library.SIDE_EFFECTS and not qualified.startswith(_PATH_FIRST)
        if anywhere and len(call.args) > 1:  # `json.dump(x, file)`: the path is what has it
            argument = next((a for a in call.args if self._source(draft, a) is not None), None)
        return kind, argument if kind else None

    def _makes_folder(self, draft: Draft, call: ast.Call) -> bool:
        qualified = draft.facts.resolver.qualified(call.func) or ""
        return qualified in _MAKES or (not qualified and self._named(call, {"mkdir"}))

    def _named(self, call: ast.Call, names: frozenset[str] | set[str]) -> bool:
        return isinstance(call.func, ast.Attribute) and call.func.attr in names

    def _only_main(self, draft: Draft, node: ast.AST, steps: int = 0) -> bool:
        """Whether a node runs on the main process only."""
        if draft.guarded(node):
            return True
        function = draft.function(node)
        sites = draft.facts.resolver.sites(function) if function is not None and steps < 4 else []
        return bool(sites) and all(self._only_main(draft, site, steps + 1) for site in sites)

    # ---- where names come from

    def _source(self, draft: Draft, path: ast.expr, listed: bool = False) -> ast.expr | None:
        """The expression from which a path has a part that differs from process to process, or, if asked for what is
        `listed`, one that asks what files there are."""
        queue: list[ast.AST] = [path]
        seen: set[ast.AST] = set(queue)
        while queue and len(seen) < _MOST_NODES:
            node = queue.pop()
            if isinstance(node, ast.Call) and (self._lists(draft, node) if listed else self._differs(draft, node)):
                return node
            if not listed and isinstance(node, ast.Attribute) and self._is_of_run(draft, node):
                return node
            found = self._tried(draft, node) if listed and isinstance(node, ast.Name) else None
            if found is not None:
                return found
            for part in (*self._behind(draft, node), *(self._counted(draft, node) if listed else ())):
                if part not in seen:
                    seen.add(part)
                    queue.append(part)
        return None

    def _lists(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call lists what is in a folder."""
        qualified = draft.facts.resolver.qualified(call.func) or ""
        return qualified in library.LISTS or (not qualified and self._named(call, {"iterdir", "glob", "rglob"}))

    def _counted(self, draft: Draft, node: ast.AST) -> Iterator[ast.AST]:
        """What a number is counted from: `1 + max(int(name[3:]) for name in os.listdir("runs"))`."""
        if isinstance(node, ast.Call) and draft.facts.resolver.builtin(node.func) in _COUNTS:
            yield from node.args
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            yield from (generator.iter for generator in node.generators)

    def _tried(self, draft: Draft, name: ast.Name) -> ast.Call | None:
        """What a loop asks that sets a variable until there is no such file: `while os.path.exists(f"run{n}")`."""
        owner = draft.facts.index.scope(name).owner(name.id)
        for binding in owner.bindings[name.id] if owner is not None else ():
            for loop in draft.facts.index.enclosing_loops(binding.node):
                if not isinstance(loop, (ast.For, ast.While)):
                    continue
                for call in (n for test in draft.facts.loops.endings(loop) for n in walk(test)):
                    if not isinstance(call, ast.Call):
                        continue
                    asks = (draft.facts.resolver.qualified(call.func) or "") in _EXIST
                    if (asks or self._named(call, {"exists", "is_dir", "is_file"})) and any(
                        isinstance(n, ast.Name) and n.id == binding.name for n in walk(call)
                    ):
                        return call
        return None

    def _is_of_run(self, draft: Draft, node: ast.Attribute) -> bool:
        """Whether an attribute is the folder or the name of a run, which each process has for itself."""
        resolver = draft.facts.resolver
        if node.attr in _RUN:
            of_value = any(value.name == "wandb.init" for value in resolver.values(node.value))
            if of_value or resolver.qualified(node.value) == "wandb.run":
                return True
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            root = root.value
        made = isinstance(root, ast.Call) and resolver.qualified(root.func) == _HYDRA
        return made and node.attr in ("output_dir", "dir")

    def _differs(self, draft: Draft, call: ast.Call) -> bool:
        qualified = draft.facts.resolver.qualified(call.func) or ""
        if qualified in OF_ITS_OWN:
            return True
        if qualified in TIMES:
            return is_time(draft.facts, call)
        if qualified in _WRITERS:
            return draft.facts.resolver.argument(call, *_WRITERS[qualified]) is None  # named after the time
        home = drawn_from(draft.facts.resolver, call)
        return home != "" and not seeded(draft, call, SEEDS[home])

    def _behind(self, draft: Draft, node: ast.AST) -> Iterator[ast.AST]:
        """What an expression has its value from, if that is a name or a part of one."""
        resolver, index = draft.facts.resolver, draft.facts.index
        if isinstance(node, ast.Name):
            for binding in resolver.bindings(node):
                if binding.how in (How.ASSIGN, How.AUGMENT, How.WITH) and binding.value is not None:
                    yield binding.value
                elif binding.how is How.PARAMETER:
                    yield from filter(None, resolver.handed(binding))
        elif isinstance(node, ast.Attribute):
            if node.attr not in index.attribute_bindings:
                yield node.value  # `uuid.uuid4().hex`, `path.parent`
                yield from written.of_class(resolver, node)
            of_arguments = Role.ARGUMENTS in resolver.roles(node.value)
            for binding in index.attribute_bindings.get(node.attr, []):
                target = binding.node
                if isinstance(target, ast.Attribute) and binding.value is not None:
                    same = ast.dump(target.value) == ast.dump(node.value)
                    if same or (of_arguments and Role.ARGUMENTS in resolver.roles(target.value)):
                        yield binding.value
        elif isinstance(node, ast.Call):
            yield from self._through(draft, node)
        elif isinstance(
            node, (ast.JoinedStr, ast.FormattedValue, ast.BinOp, ast.IfExp, ast.Tuple, ast.BoolOp, ast.List)
        ):
            yield from children(node)
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            yield node.elt

    def _through(self, draft: Draft, call: ast.Call) -> Iterator[ast.AST]:
        """What the result of a call is made of, if it may be a name."""
        resolver = draft.facts.resolver
        target = resolver.callee(call)
        qualified = resolver.qualified(call.func) or ""
        if isinstance(target, FUNCTIONS):
            yield from (r.value for r in resolver.returns(target) if r.value is not None)
        elif qualified in _WRITERS:  # `writer.log_dir`
            yield from filter(None, [resolver.argument(call, *_WRITERS[qualified])])
        elif qualified.startswith(_THROUGH) or resolver.builtin(call.func) in ("str", "int", "repr", "round"):
            yield from (*call.args, *(k.value for k in call.keywords))
        elif (
            isinstance(call.func, ast.Attribute)
            and files.mode(resolver, call) is None
            and not qualified
            and target is None
        ):
            yield call.func.value
            yield from call.args
