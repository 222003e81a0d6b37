"""Prints once, not once per process."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from accelift_codemod.draft import Draft
from accelift_codemod.facts import Binding, signatures
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.memo import kept
from accelift_codemod.facts.showing import PRINTS, is_logging, prints
from accelift_codemod.plan import Edit, Finding, Need, Operation, Severity
from accelift_codemod.rules import Explained, Rule

_RULE = "PRINT"
_SAID = frozenset({"sep", "end", "flush"})


class Printing(Rule):
    """Writes `accelerator.print(...)` for `print(...)`: the main process of the whole job prints.

    The arguments are evaluated on every process, so a print may contain a call that all of them have to make. A print
    into a file is put under `if accelerator.is_main_process:`, unless the file is a text in memory. Print may go by
    another name (`log = print`, `print = partial(print, flush=True)`). Prints in code that the accelerator does not
    reach, such as before it is made or inside a dataset, stay as they are.
    """

    code = _RULE
    name = "print"
    before = 'print("epoch", epoch)\n'
    after = 'accelerator.print("epoch", epoch)\n'
    findings = (
        Explained(
            "PRINT-ALL",
            Severity.NOTE,
            "every process prints this",
            "Something is printed or logged where the accelerator is not at hand, or by what is given print: every "
            "process does so.",
        ),
        Explained(
            "INPUT-ALL",
            Severity.WARNING,
            "every process asks for input",
            "input() runs on every process, of which a launcher connects at most one to the terminal: the others wait "
            "for ever or fail.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        logged: set[ast.AST | None] = set()
        seen: set[ast.AST] = set()  # defaults that are print
        for call in draft.calls:
            given = prints(draft.facts.resolver, call.func)
            if draft.facts.resolver.builtin(call.func) == "print":
                yield from self._print(draft, call)
            elif given is not None and not draft.guarded(call) and self._stands_for(draft, call, given):
                yield from self._print(draft, call, given)
            elif given is not None and not draft.guarded(call):
                yield self._by_all(draft, call)
            elif (handed := self._handed(draft, call)) is not None and handed not in seen:
                seen.add(handed)
                yield draft.finding(
                    "PRINT-ALL",
                    Severity.NOTE,
                    call,
                    f"`{draft.facts.short(call.func)}` is given print, and prints on every process",
                    "hand it accelerator.print",
                )
            elif draft.facts.resolver.builtin(call.func) == "input":
                yield draft.finding(
                    "INPUT-ALL",
                    Severity.WARNING,
                    call,
                    "every process asks for input, and launchers connect at most one to the terminal",
                    "take the answer from the command line, or ask under `if accelerator.is_main_process:` and "
                    "broadcast it",
                )
            elif is_logging(draft.facts.resolver, call):
                function = draft.function(call)
                if function not in logged:
                    logged.add(function)
                    yield draft.finding(
                        "PRINT-ALL",
                        Severity.NOTE,
                        call,
                        "the logging module writes on every process",
                        "raise its level where accelerator.is_main_process is false",
                    )

    def _stands_for(self, draft: Draft, call: ast.Call, given: list[ast.keyword]) -> bool:
        """Whether a call is one of print with what it has been given before, if that is written out in it."""
        resolver = draft.facts.resolver
        patched = any(
            resolver.qualified(b.node) in PRINTS for b in draft.facts.index.attribute_bindings.get("print", ())
        )
        if patched or resolver.qualified(call.func) in PRINTS:  # which accelerator.print would call
            return False
        index, names = draft.facts.index, resolver.bindings(call.func) if isinstance(call.func, ast.Name) else []
        always = all(isinstance(index.parents[index.statement(b.node)], (ast.Module, *FUNCTIONS)) for b in names)
        told = signatures.is_told(call) or not given
        return always and told and all(k.arg in _SAID and isinstance(k.value, ast.Constant) for k in given)

    def _by_all(self, draft: Draft, call: ast.Call) -> Finding:
        return draft.finding(
            "PRINT-ALL",
            Severity.NOTE,
            call,
            f"`{draft.facts.short(call.func)}` is print, and runs on every process",
            "call it under `if accelerator.is_main_process:`",
        )

    def _handed(self, draft: Draft, call: ast.Call) -> ast.expr | None:
        """The builtin print that a call may run, as a parameter was given it, or has it by default: `self.log(x)`; or
        that it is given, if it is none of a function of the script: `map(print, lines)`."""
        resolver = draft.facts.resolver
        if resolver.callee(call) is None and resolver.qualified(call.func) != signatures.PARTIAL:
            names = (
                n for n in (*call.args, *(k.value for k in call.keywords)) if isinstance(n, (ast.Name, ast.Attribute))
            )
            direct = next((n for n in names if prints(resolver, n) is not None), None)
            if direct is not None and not draft.guarded(call):
                return direct
        bindings = list(resolver.bindings(call.func)) if isinstance(call.func, ast.Name) else []
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            for value in _stored(draft, call.func.attr).get(_home(draft, call), ()):  # in the class that the call is in
                if prints(resolver, value) is not None and not draft.guarded(call):
                    return value
                bindings += resolver.bindings(value) if isinstance(value, ast.Name) else []
        if not bindings or draft.guarded(call):
            return None
        held = [b.value for b in bindings if b.how is How.ASSIGN and isinstance(b.value, ast.Name)]  # in a variable
        bindings += [one for value in held for one in resolver.bindings(value)]
        for binding in bindings:
            if binding.how is How.PARAMETER and isinstance(binding.node, ast.arg):
                for value in filter(None, resolver.handed(binding)):
                    if prints(resolver, value) is not None:
                        return value
        return None

    def _print(self, draft: Draft, call: ast.Call, given: Sequence[ast.keyword] = ()) -> Iterator[Edit | Finding]:
        if self._tells_of_an_error(draft, call):
            return  # which only this process may have met
        where = draft.function(call)
        place = f"in {where.name}()" if isinstance(where, FUNCTIONS) else "at module level"
        otherwise = draft.finding(
            "PRINT-ALL",
            Severity.NOTE,
            call,
            f"print {place} runs on every process",
            "print under `if accelerator.is_main_process:` where the accelerator is at hand",
        )
        reason = "one line per job, not per process"
        file = next((k.value for k in call.keywords if k.arg == "file"), None)
        if file is not None:
            if draft.guarded(call) or draft.is_buffer(file):
                return
            statement = draft.facts.index.statement(call)
            if isinstance(statement, ast.Expr) and statement.value is call:
                if draft.collective(statement) is not None:
                    yield otherwise  # what is printed is computed by all processes together
                    return
                yield draft.edit(
                    _RULE,
                    statement,
                    Operation.ENCLOSE,
                    reason,
                    "if {accelerator}.is_main_process:",
                    need=Need.WEAK,
                    otherwise=otherwise,
                )
            return
        yield draft.edit(
            _RULE,
            call.func,
            Operation.BECOME,
            reason,
            "{accelerator}.print",
            need=Need.WEAK,
            otherwise=otherwise,
        )
        for keyword in (k for k in given if k.arg not in {own.arg for own in call.keywords}):
            code = f"{keyword.arg}={draft.facts.segment(keyword.value)}"
            yield draft.edit(_RULE, call, Operation.ADD_ARGUMENT, reason, code, need=Need.WEAK)

    def _tells_of_an_error(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a print stands where an error is handled that came while all processes compute together."""
        for parent in draft.facts.index.ancestors(call):
            if isinstance(parent, FUNCTIONS):
                break
            if isinstance(parent, ast.ExceptHandler):
                block = draft.facts.index.parents[parent]
                return isinstance(block, ast.Try) and any(draft.collective(s) is not None for s in block.body)
        return False


def _beside(binding: Binding) -> ast.expr | None:
    """What a binding gives, also of several that are set beside each other: `self.a, self.b = a, b`."""
    value = binding.value
    for place in binding.path:
        if place is None or not isinstance(value, (ast.Tuple, ast.List)) or place >= len(value.elts):
            return None
        value = value.elts[place]
    return value


def _home(draft: Draft, node: ast.AST) -> ast.AST | None:
    """The class (or what else) that the function around a node stands in; None outside of functions."""
    function = draft.function(node)
    return draft.facts.index.parents.get(function) if function is not None else None


@kept
def _stored(draft: Draft, attribute: str) -> dict[ast.AST | None, list[ast.expr]]:
    """What an attribute is set to, by the class in which it is."""
    found: dict[ast.AST | None, list[ast.expr]] = {}
    for binding in draft.facts.index.attribute_bindings.get(attribute, []):
        value = _beside(binding)
        if value is not None:
            found.setdefault(_home(draft, binding.node), []).append(value)
    return found
