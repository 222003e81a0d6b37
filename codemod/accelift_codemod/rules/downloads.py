"""Downloads on one process first."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, files, library
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.signatures import default
from accelift_codemod.facts.tree import is_constant, walk
from accelift_codemod.facts.values import Value, Values
from accelift_codemod.plan import Edit, Finding, Need, Operation, Severity
from accelift_codemod.rules import Explained, Rule

_RULE = "DOWNLOAD"
_DATASETS = "torchvision.datasets."


class Downloads(Rule):
    """Puts a statement that may download a data set under `with accelerator.main_process_first():`.

    The main process fetches the files, the others wait and then find them there. What fetches a file again though it is
    there (`urlretrieve`) is left to the main process. A download hidden in a function that
    the accelerator does not reach is guarded where the function is called.
    """

    code = _RULE
    name = "downloads"
    before = 'train_set = datasets.MNIST("data", download=True)\n'
    after = """\
with accelerator.main_process_first():
    train_set = datasets.MNIST("data", download=True)
"""
    findings = (
        Explained(
            "DL-RACE",
            Severity.WARNING,
            "every process downloads the same files",
            "Every process downloads and unpacks the same files into the same folder at the same time.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        guarded: set[ast.stmt] = set()
        index = draft.facts.index
        again = [c for c in draft.calls if self._fetches_again(draft, c)]
        for call in draft.calls:
            if not self._downloads(draft, call) or self._asked_outside(draft, call):
                continue
            if files.asked_before(draft.facts.resolver, call) or (call in again and draft.training_around(call)):
                yield self._race(draft, call)  # a slower process would not come to where the others wait
                continue
            if call in again:
                yield from self._once(draft, call)
            for place in draft.caches.places(call):
                statement = draft.facts.index.statement(place)
                if call in again and statement is index.statement(call):
                    continue
                if statement in guarded or any(map(draft.goes_first, (statement, *index.ancestors(statement)))):
                    continue
                for inner in walk(statement):  # one inside the other would wait for ever
                    if (edit := draft.goes_first(inner)) is not None:
                        draft.remove(edit)
                guarded.add(statement)
                yield draft.edit(
                    _RULE,
                    statement,
                    Operation.ENCLOSE,
                    "the others must not download into the same folder at the same time",
                    "with {accelerator}.main_process_first():",
                    need=Need.WEAK,
                    otherwise=self._race(draft, call),
                )

    def _fetches_again(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a statement fetches a file though it is there, so that the others would write over what the main
        process reads already."""
        name = draft.facts.resolver.qualified(call.func)
        if name not in library.FETCHES_AGAIN or not isinstance(draft.facts.index.parents.get(call), ast.Expr):
            return False
        tried = any(isinstance(s, ast.Try) for s in draft.facts.index.chain(call))  # the others would not notice
        return not tried and not draft.caches.making(call)

    def _once(self, draft: Draft, call: ast.Call) -> Iterator[Edit]:
        """The main process alone fetches it; the others wait, unless they do where the function is called."""
        statement = draft.facts.index.statement(call)
        race = self._race(draft, call)
        why = "each other process would write over what the main process has fetched"
        head = "if {accelerator}.is_main_process:"
        yield draft.edit(_RULE, statement, Operation.ENCLOSE, why, head, need=Need.WEAK, otherwise=race)
        if statement in draft.caches.places(call):
            why, wait = "the others need what the main process fetches", "{accelerator}.wait_for_everyone()"
            yield draft.edit(_RULE, statement, Operation.AFTER, why, wait, need=Need.WEAK)

    def _race(self, draft: Draft, call: ast.Call) -> Finding:
        return draft.finding(
            "DL-RACE",
            Severity.WARNING,
            call,
            "every process downloads into the same folder at the same time",
            "download before launching, or under `with accelerator.main_process_first():`",
        )

    def _downloads(self, draft: Draft, call: ast.Call) -> bool:
        if (draft.facts.resolver.qualified(call.func) or "") in library.DOWNLOADS or self._written(draft, call):
            return True
        if self._fetches(draft, call):
            return True
        given = call.args[4:6] if (draft.facts.resolver.qualified(call.func) or "").startswith(_DATASETS) else []
        if any(is_constant(a, True) for a in given):
            return True  # MNIST(root, train, transform, target_transform, download)
        if draft.facts.resolver.builtin(call.func) is not None:
            return False  # dict(download=True)
        for keyword in call.keywords:
            values = draft.facts.resolver.values(keyword.value)
            if keyword.arg is None:  # **options
                values = tuple(v for one in values for v in _entry(one, "download"))
            elif keyword.arg != "download":
                continue
            constants = [v for v in values if v.role is Role.CONSTANT]
            if any(v.keys[0] for v in constants) or not (constants or keyword.arg is None):
                return True
        return False

    def _fetches(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a data set is made of a library whose data sets fetch and prepare their files by themselves."""
        module, _, name = (draft.facts.resolver.qualified(call.func) or "").rpartition(".")
        return f"{module}.".startswith(library.FETCHES) and name[:1].isupper()

    def _written(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a page is opened, and what it holds is written into a file."""
        qualified = draft.facts.resolver.qualified(call.func) or ""
        if qualified.removeprefix("six.moves.") != "urllib.request.urlopen":
            return False
        return any(
            any(v.origin is call for n in loads(argument) for v in draft.facts.resolver.values(n))
            for write in draft.calls
            if draft.function(write) is draft.function(call)
            and (
                (isinstance(write.func, ast.Attribute) and write.func.attr == "write")
                or draft.facts.resolver.qualified(write.func) == "shutil.copyfileobj"
            )
            for argument in write.args
        )

    def _asked_outside(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a data set of the script's own hands its `download` on: then whoever makes one is guarded."""
        function = draft.function(call)
        value = next((k.value for k in call.keywords if k.arg == "download"), None)
        if not isinstance(function, FUNCTIONS) or function.name != "__init__" or not isinstance(value, ast.Name):
            return False
        given = next((p for p in (*function.args.args, *function.args.kwonlyargs) if p.arg == value.id), None)
        otherwise = default(function, given) if given is not None else None
        return value.id == "download" and is_constant(otherwise, False)


def _entry(options: Value, key: str) -> Values:
    """What a dict holds under a key."""
    known = zip(options.keys, options.inner, strict=True) if options.role is Role.DICT else ()
    return next((inner for name, inner in known if name == key), ())
