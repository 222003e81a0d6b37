"""Device selection and device moves."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from accelift_codemod.facts import supposed, whereabouts, written
from accelift_codemod.facts.command_line import CommandLine
from accelift_codemod.facts.conditions import FALSE, TRUE, Condition, Conditions, choose
from accelift_codemod.facts.index import FUNCTIONS, Binding, How, Scope, position
from accelift_codemod.facts.numbers import Part
from accelift_codemod.facts.processes import Processes
from accelift_codemod.facts.resolve import Resolver
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role

_DEVICE = re.compile(r"^(cuda|cpu|mps|xpu|npu|hpu|gpu)(:\d+)?$")


@dataclass(frozen=True)
class DeviceVariable:
    """A variable (or attribute) that holds the device the script chose."""

    name: str
    scope: Scope | None  # None for an attribute
    text: str  # how the script spells it
    bindings: tuple[Binding, ...]
    statements: tuple[ast.stmt, ...]  # sibling statements that choose the device, first to last
    whole: bool  # the statements do nothing else
    is_string: bool
    cpu: Condition | None  # when it is the CPU, an accelerator being there; None: cannot be told
    indexed: ast.expr | None  # the expression that picks one accelerator of several


class Devices:
    """Finds how a script picks its device and what it moves there."""

    def __init__(
        self,
        resolver: Resolver,
        command_line: CommandLine,
        processes: Processes,
        segment: Callable[[ast.AST], str],
        runs: Callable[[ast.AST], bool],
    ) -> None:
        self.resolver = resolver
        self.index = resolver.index
        self.command_line = command_line
        self.processes = processes
        self.segment = segment
        self.runs = runs
        self.conditions = Conditions(resolver, segment, runs)
        self._handed: set[Binding] = set()  # parameters that certainly are devices

    # ---- expressions

    def is_device(self, node: ast.AST | None, depth: int = 0) -> bool:
        """Whether an expression denotes a device."""
        if node is None or depth > 8:
            return False
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str) and bool(_DEVICE.match(node.value))
        if isinstance(node, ast.JoinedStr):
            first = node.values[0] if node.values else None
            return isinstance(first, ast.Constant) and str(first.value).startswith(("cuda", "xpu", "npu"))
        if isinstance(node, ast.BinOp):
            left = node.left
            return isinstance(left, ast.Constant) and str(left.value).startswith(("cuda", "xpu", "npu"))
        if isinstance(node, ast.IfExp):
            if whereabouts.asks(self.resolver, node.test):
                return False  # no choice: where a tensor is already
            return self.is_device(node.body, depth + 1) and self.is_device(node.orelse, depth + 1)
        if isinstance(node, ast.BoolOp):
            return any(self.is_device(v, depth + 1) for v in node.values)
        if isinstance(node, ast.Call):
            qualified = self.resolver.qualified(node.func) or ""
            if qualified == "torch.accelerator.current_accelerator" or whereabouts.is_current(self.resolver, node):
                return True
            if qualified == "torch.device":
                return not any(map(self.follows, (*node.args, *(k.value for k in node.keywords))))
            func = node.func
            if isinstance(func, ast.Attribute) and func.attr == "format":
                return self.is_device(func.value, depth + 1) or _template(func.value)
            target = self.resolver.callee(node)
            if isinstance(target, FUNCTIONS):
                returned = self.resolver.returns(target)
                return bool(returned) and all(self.is_device(r.value, depth + 1) for r in returned)
            return False
        if isinstance(node, ast.Name):
            return self._bind_devices(self.resolver.bindings(node), depth + 1)
        if isinstance(node, ast.Attribute):
            if any(v.role is Role.DEVICE for v in self.resolver.values(node)):
                return True
            found = self.attribute_bindings(node)
            if found:
                return all(self._binds_device(b, depth + 1) for b in found)
            field = written.field(self.resolver, node)
            return self.option(node) is not None or (field is not None and self._binds_device(field, depth + 1))
        return False

    def _binds_device(self, binding: Binding, depth: int) -> bool:
        if binding.how is not How.PARAMETER:
            return self._chooses(binding) and self.is_device(binding.value, depth)
        if binding not in self._handed:  # of each once: there may be many calls, of functions with many calls
            arguments = self.resolver.handed(binding, self.runs)
            if not arguments or not all(self.is_device(a, depth) for a in arguments):
                return False
            self._handed.add(binding)
        return True

    def _bind_devices(self, bindings: list[Binding], depth: int) -> bool:
        """Whether a variable holds a device: one that the script chooses, or what an option says where that is one."""
        chosen = [b for b in bindings if not _is_none(b)]
        told = [b for b in chosen if len(chosen) > 1 and self.is_told(_plain(b))]
        return len(told) < len(chosen) and all(self._binds_device(b, depth) for b in chosen if b not in told)

    def _chooses(self, binding: Binding) -> bool:
        """Whether a binding is an assignment, and not made only where another tensor is on a certain device."""
        return (
            binding.how is How.ASSIGN
            and not binding.path
            and not any(
                isinstance(parent, ast.If) and whereabouts.asks(self.resolver, parent.test)
                for parent in self.index.ancestors(binding.node)
            )
        )

    def follows(self, node: ast.expr) -> bool:
        """Whether an expression is the place of a tensor."""
        return whereabouts.follows(self.resolver, node)

    def attribute_bindings(self, node: ast.Attribute) -> list[Binding]:
        """Assignments to the same attribute of the same variable."""
        return [
            b
            for b in self.index.attribute_bindings.get(node.attr, [])
            if isinstance(b.node, ast.Attribute) and ast.dump(b.node.value) == ast.dump(node.value)
        ]

    def option(self, node: ast.Attribute) -> ast.Call | None:
        """The `add_argument` call of a command-line option that holds a device name by default."""
        if Role.ARGUMENTS not in self.resolver.roles(node.value):
            return None
        call = self.command_line.options.get(node.attr)
        if call is None:
            return None
        value = self.resolver.argument(call, None, "default")
        return call if self.is_device(value) else None

    def cpu(self, node: ast.expr | None, depth: int = 0) -> Condition | None:
        """When a device expression is the CPU although an accelerator is there; None if that cannot be told."""
        node = written.entry(self.resolver, node) or node
        if node is None or depth > 8:
            return None
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                return TRUE if node.value == "cpu" else FALSE if _DEVICE.match(node.value) else None
            return FALSE if isinstance(node.value, int) else None
        if isinstance(node, ast.IfExp):
            yes, no = self.cpu(node.body, depth + 1), self.cpu(node.orelse, depth + 1)
            if yes is None or no is None:
                return None
            return self._either(node.test, yes, no)
        if isinstance(node, ast.BoolOp):
            first, *others = node.values
            yes = self.cpu(first, depth + 1)
            if not isinstance(node.op, ast.Or) or len(others) > 1 or not self.is_told(first):
                return yes
            no = self.cpu(others[0], depth + 1)
            return None if yes is None or no is None else self._either(first, yes, no)
        if isinstance(node, ast.Call):
            qualified = self.resolver.qualified(node.func) or ""
            if qualified in ("torch.accelerator.current_accelerator", "torch.cuda.current_device"):
                return FALSE
            if qualified == "torch.device":
                chosen = self.resolver.argument(node, 0, "device") or self.resolver.argument(node, 0, "type")
                return self.cpu(chosen, depth + 1)
            if isinstance(node.func, ast.Attribute) and node.func.attr == "format":
                return FALSE if _template(node.func.value) else None
            target = self.resolver.callee(node)
            if isinstance(target, FUNCTIONS):
                return self._returned(target.body, depth + 1)
            return None
        if isinstance(node, (ast.JoinedStr, ast.BinOp)):
            return FALSE if self.is_device(node) else None
        if isinstance(node, ast.Attribute) and (self.option(node) is not None or self.is_told(node)):
            if not self.attribute_bindings(node) or self.is_before(node):
                return self.conditions.atom(node, ' == "cpu"')
        if self._is_number(node):
            return FALSE
        bindings: list[Binding] = []
        if isinstance(node, (ast.Name, ast.Attribute)):
            bindings = [b for b in self._bindings(node) if not _is_none(b)]
        if len(bindings) == 1 and bindings[0].how is How.ASSIGN and not bindings[0].path:
            if self._perhaps(bindings):  # else it is what the command line said
                return self._region(bindings)[2] if depth < 2 else None
            return self.cpu(bindings[0].value, depth + 1)
        if len(bindings) == 1 and bindings[0].how is How.PARAMETER:
            given = {self.cpu(argument, depth + 1) for argument in self.resolver.handed(bindings[0], self.runs)}
            return given.pop() if len(given) == 1 else None
        if _is_part(node, bindings):
            return None
        if len(bindings) > 1 and self._bind_devices(bindings, depth + 1) and all(b.how is How.ASSIGN for b in bindings):
            if len({self.index.function(b.node) for b in bindings}) == 1:
                return self._region(sorted(bindings, key=lambda b: position(b.node)))[2]
        return None

    def _either(self, test: ast.expr, yes: Condition, no: Condition, kept: ast.AST | None = None) -> Condition:
        """One of two answers. What an option (or the variable that has kept it so far) is asked for besides being the
        CPU is left out if that says it already."""
        for answer, wanted in ((yes, True), (no, False)):
            other = no if wanted else yes
            if answer.operator == "atom" and answer.node is not None and other == FALSE:
                says = [supposed.holds(test, n, "cpu") for n in (answer.node, kept) if isinstance(n, ast.expr)]
                if wanted in says and answer.text.endswith(' == "cpu"'):
                    return answer
        return choose(self.conditions.read(test), yes, no)

    def is_told(self, node: ast.AST | None) -> bool:
        """Whether an expression is an option of the command line that takes the name of a device, or stands for one."""
        default = self.command_line.word(node)
        return default is not None and (self.is_device(default) or self.command_line.is_asked(node, default))

    def _perhaps(self, bindings: list[Binding]) -> list[ast.If]:
        """The conditions, the inner ones first, under which alone an option of the command line is set."""
        node = bindings[0].node
        if not isinstance(node, ast.Attribute) or not self.is_told(node):
            return []
        return self.command_line.above(node)

    def _returned(self, block: list[ast.stmt], depth: int) -> Condition | None:
        """When the device that statements return is the CPU; None if that cannot be told, or they may return none."""
        for place, statement in enumerate(block):
            if isinstance(statement, ast.Return):
                return self.cpu(statement.value, depth)
            if not any(isinstance(n, (ast.Return, ast.Raise)) for n in walk(statement)):
                continue
            if not isinstance(statement, ast.If) or depth > 8:
                return None
            rest = block[place + 1 :]
            yes = self._returned([*statement.body, *rest], depth + 1)
            no = self._returned([*statement.orelse, *rest], depth + 1)
            if _fails(statement.body):
                return no
            if yes is None or no is None:
                return None
            return self._either(statement.test, yes, no)
        return None

    def is_before(self, node: ast.expr) -> bool:
        """Whether an attribute is read for what it is set to next: `args.device = torch.device(args.device)`."""
        bindings = self.attribute_bindings(node) if isinstance(node, ast.Attribute) else []
        return len(bindings) == 1 and _is_part(node, bindings)

    def _is_number(self, node: ast.expr | None) -> bool:
        """Whether an expression is a command-line option with a number: that of a GPU."""
        if not isinstance(node, ast.Attribute) or Role.ARGUMENTS not in self.resolver.roles(node.value):
            return False
        call = self.command_line.options.get(node.attr)
        kind = self.resolver.argument(call, None, "type") if call is not None else None
        return kind is not None and self.resolver.builtin(kind) == "int" and not self.attribute_bindings(node)

    def is_numeral(self, node: ast.expr | None, steps: int = 0) -> bool:
        """Whether an expression is the number of a GPU, perhaps handed on: 0 in `.to(gpu_id)`."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, int) and not isinstance(node.value, bool)
        if steps > 8 or not isinstance(node, ast.Name):
            return False
        bindings = self.resolver.bindings(node)
        given = [a for b in bindings for a in (self.resolver.handed(b) if b.how is How.PARAMETER else [_plain(b)])]
        return bool(given) and all(self.is_numeral(value, steps + 1) for value in given)

    def picks(self, node: ast.expr | None, steps: int = 0) -> bool:
        """Whether an expression is a GPU by its number or name: a literal, an option, the process's own, or a variable
        or parameter that only ever is one of these."""
        if node is None or steps > 8:
            return False
        if self.is_own(node) or self._is_number(node) or self.number(node) is not None:
            return True
        if isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp)):
            return self.is_device(node)
        if isinstance(node, ast.Attribute):
            return self.option(node) is not None and not self.attribute_bindings(node)
        bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
        given = [a for b in bindings for a in (self.resolver.handed(b) if b.how is How.PARAMETER else [_plain(b)])]
        return bool(given) and all(self.picks(value, steps + 1) for value in given)

    def indexed(self, node: ast.AST | None) -> ast.expr | None:
        """The part of a device expression that picks one accelerator other than the first, for every process."""
        if node is None or self.is_own(node):
            return None
        for part in walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                match = _DEVICE.match(part.value)
                if match and match[2] not in (None, ":0"):
                    return part
            elif isinstance(part, ast.Attribute):
                if self._is_number(part):
                    return part
            elif isinstance(part, (ast.JoinedStr, ast.BinOp)) and self.is_device(part):
                return part
            elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "format":
                if _template(part.func.value):
                    return part
        return None

    def number(self, node: ast.expr | None, steps: int = 0) -> int | None:
        """The number of the GPU that a device is, where it is written out: `"cuda:1"`, perhaps in a variable."""
        if isinstance(node, ast.Call) and self.resolver.qualified(node.func) == "torch.device":
            index = self.resolver.argument(node, 1, "index")
            return self.number(index or self.resolver.argument(node, 0, "device"), steps)
        if isinstance(node, ast.IfExp):
            found = {n for n in (self.number(node.body, steps), self.number(node.orelse, steps)) if n is not None}
            return found.pop() if len(found) == 1 else None
        if isinstance(node, (ast.Name, ast.Attribute)) and steps < 8:
            bindings = self._bindings(node)
            single = len(bindings) == 1 and bindings[0].how is How.ASSIGN and not bindings[0].path
            return self.number(bindings[0].value, steps + 1) if single else None
        if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
            return None
        if isinstance(node.value, int):
            return node.value
        match = _DEVICE.match(str(node.value))
        return int(match[2][1:]) if match and match[1] == "cuda" and match[2] else None

    def is_numbered(self, node: ast.AST | None) -> bool:
        """Whether an expression is the name of one particular device, as `"cuda:0"`."""
        match = _DEVICE.match(str(node.value)) if isinstance(node, ast.Constant) else None
        return match is not None and match[2] is not None

    def is_own(self, node: ast.AST) -> bool:
        """Whether a device is chosen by the process's own number (`f"cuda:{local_rank}"`), or is that number."""
        ranks = (Part.RANK, Part.LOCAL_RANK)
        return bool(self.processes.sources) and any(
            self.processes.part(part) in ranks for part in walk(node) if isinstance(part, ast.expr)
        )

    # ---- variables

    @cached_property
    def variables(self) -> list[DeviceVariable]:
        """Variables that hold the chosen device, in source order."""
        found: list[DeviceVariable] = []
        for scope in self.index.scopes.values():
            for name, bindings in scope.bindings.items():
                chosen = [b for b in bindings if not _is_none(b)]
                if chosen and all(map(self._chooses, chosen)) and self._bind_devices(chosen, 0):
                    later = [b for b in chosen if self._is_later(b, chosen)]
                    variable = self._variable(name, scope, name, [b for b in chosen if b not in later] or chosen)
                    if any(self._reads(b, chosen, True) for b in later):
                        variable = replace(variable, cpu=None)  # some read may be of either
                    if not variable.is_string or self._used_as_device(scope, name):
                        found.append(variable)
        for name, bindings in self.index.attribute_bindings.items():
            spellings = {ast.dump(b.node): b for b in bindings}
            for spelling, first in spellings.items():
                same = [b for b in bindings if ast.dump(b.node) == spelling]
                if all(self._chooses(b) and self.is_device(b.value) for b in same):
                    found.append(self._variable(name, None, self.segment(first.node), same))
        if self._calls_cuda or any(v.cpu != TRUE for v in found):
            found = [v for v in found if v.cpu != TRUE]
        return sorted(found, key=lambda v: position(v.statements[0]))

    def _is_later(self, binding: Binding, chosen: list[Binding]) -> bool:
        """Whether a variable is set to the CPU once something has moved to another device: after the training, say."""
        if len(chosen) == 1 or self.cpu(binding.value) != TRUE:
            return False
        statement = self.index.statement(binding.node)
        if not isinstance(statement, ast.Assign) or isinstance(self.index.parents.get(statement), ast.If):
            return False
        return any(position(n) < position(statement) and self._is_taken(n) for n in self._reads(binding, chosen, False))

    def _reads(self, binding: Binding, chosen: list[Binding], also: bool) -> list[ast.Name]:
        """The reads of a variable that a binding certainly does not reach; or those it reaches beside others."""
        loads = (n for n in self.index.parents if isinstance(n, ast.Name) and n.id == binding.name)
        found = ((n, self.resolver.bindings(n)) for n in loads if isinstance(n.ctx, ast.Load))
        reached = ((n, known) for n, known in found if any(b in chosen for b in known))
        return [n for n, known in reached if (binding in known and len(known) > 1 if also else binding not in known)]

    @cached_property
    def _calls_cuda(self) -> bool:
        return any(self.resolver.qualified(c.func) != "torch.cuda" for c in self.index.methods.get("cuda", []))

    def is_elsewhere(self, node: ast.expr) -> bool:
        """Whether a device expression always is the CPU, in a script that chooses its device otherwise."""
        if self.cpu(node) != TRUE:
            return False
        return not isinstance(node, (ast.Name, ast.Attribute)) or all(
            not any(b.value is one.value for one in v.bindings) for v in self.variables for b in self._bindings(node)
        )

    def _bindings(self, node: ast.Name | ast.Attribute) -> list[Binding]:
        if isinstance(node, ast.Name):
            return self.resolver.bindings(node)
        field = written.field(self.resolver, node)
        return self.attribute_bindings(node) or ([field] if field is not None else [])

    def _used_as_device(self, scope: Scope, name: str) -> bool:
        """Whether a string variable is handed to something that takes a device."""
        fields = self.index.attributes.get(name, []) if scope.is_class else []
        if any(map(self._is_taken, written.reads(self.resolver, scope.node, name) if fields else ())):
            return True
        for call in self.index.calls:
            arguments = [
                *call.args,
                *(k.value for k in call.keywords if k.arg in ("device", "map_location", "device_type")),
            ]
            takes = (isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "cuda")) or (
                self.resolver.qualified(call.func) == "torch.device"
            )
            for argument in arguments if takes else arguments[len(call.args) :]:
                if isinstance(argument, ast.Name) and argument.id == name:
                    if self.index.scope(argument).owner(name) is scope:
                        return True
                if argument in fields and isinstance(argument, ast.Attribute):
                    field = written.field(self.resolver, argument)
                    if field is not None and field in scope.bindings[name]:
                        return True
        for function in self.index.functions:  # handed on as a parameter
            for call in self.resolver.sites(function):
                given = self.resolver.bind(call, function) or {}
                for parameter, argument in given.items():
                    if isinstance(argument, ast.Name) and argument.id == name:
                        inner = self.index.scopes[function]
                        if self.index.scope(argument).owner(name) is scope and self._used_as_device(inner, parameter):
                            return True
        return False

    def _is_taken(self, node: ast.expr) -> bool:
        """Whether an expression is handed to what takes a device: `x.to(cfg.device)`, `torch.zeros(3, device=...)`."""
        parent = self.index.parents.get(node)
        if isinstance(parent, ast.keyword):
            return parent.arg in ("device", "map_location", "device_type")
        if not isinstance(parent, ast.Call) or node is parent.func:
            return False
        moves = isinstance(parent.func, ast.Attribute) and parent.func.attr in ("to", "cuda")
        return moves or self.resolver.qualified(parent.func) == "torch.device"

    def _variable(self, name: str, scope: Scope | None, text: str, bindings: list[Binding]) -> DeviceVariable:
        bindings = sorted(bindings, key=lambda b: position(b.node))
        statements, whole, cpu = self._region(bindings)
        strings = not any(self._is_object(b.value) for b in bindings)
        indexed = next((i for b in bindings if (i := self.indexed(b.value)) is not None), None)
        return DeviceVariable(name, scope, text, tuple(bindings), statements, whole, strings, cpu, indexed)

    def _is_object(self, node: ast.expr | None) -> bool:
        """Whether a device expression is a torch.device (else a string)."""
        if isinstance(node, ast.IfExp):
            return self._is_object(node.body) or self._is_object(node.orelse)
        return any(v.role is Role.DEVICE for v in self.resolver.values(node))

    def _region(self, bindings: list[Binding]) -> tuple[tuple[ast.stmt, ...], bool, Condition | None]:
        """The sibling statements that choose a device, whether they do only that, and when it is the CPU."""
        index = self.index
        chains = [index.chain(b.node) for b in bindings]
        depth = 0
        while all(len(c) > depth for c in chains) and len({c[depth] for c in chains}) == 1:
            depth += 1
        if len(bindings) > 1 and depth and all(len(c) > depth for c in chains):
            blocks = {id(index.block(c[depth])[0]) for c in chains}
            if len(blocks) > 1:
                depth -= 1  # branches of one `if`: the `if` itself is the region
        elif depth:
            depth -= 1
        perhaps = self._perhaps(bindings) if len(bindings) == 1 else []
        tops: list[ast.stmt] = [*perhaps[-1:]] or [c[min(depth, len(c) - 1)] for c in chains]
        block, _ = index.block(tops[0])
        places = sorted({index.block(t)[1] for t in tops if index.block(t)[0] is block})
        region = tuple(block[places[0] : places[-1] + 1])
        targets = {b.node for b in bindings}
        whole = len(places) == len(region) and all(self._only_chooses(s, targets) for s in region)
        first = bindings[0].node
        cpu = self.conditions.atom(first, ' == "cpu"') if self.is_told(first) else None  # type: ignore[arg-type]
        for statement in region:
            cpu = self._fold(statement, targets, cpu)
        return region, whole, cpu

    def _only_chooses(self, statement: ast.stmt, targets: set[ast.AST]) -> bool:
        if isinstance(statement, ast.Assign):
            return len(statement.targets) == 1 and statement.targets[0] in targets
        if isinstance(statement, ast.AnnAssign):
            return statement.target in targets
        if isinstance(statement, ast.If):
            return all(self._only_chooses(s, targets) for s in (*statement.body, *statement.orelse))
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):  # gone with the choice
            call = statement.value
            begins = call in self.processes.groups and self.processes.managed
            return begins or self.resolver.qualified(call.func) == "torch.cuda.set_device"
        return False

    def _fold(self, statement: ast.stmt, targets: set[ast.AST], cpu: Condition | None) -> Condition | None:
        if isinstance(statement, ast.Assign) and any(t in targets for t in statement.targets):
            return self.cpu(statement.value)
        if isinstance(statement, ast.AnnAssign) and statement.target in targets:
            return self.cpu(statement.value)
        if isinstance(statement, ast.If):
            yes, no = cpu, cpu
            for inner in statement.body:
                yes = self._fold(inner, targets, yes)
            for inner in statement.orelse:
                no = self._fold(inner, targets, no)
            if yes == no:
                return yes
            if yes is None or no is None:
                return None
            target = next(iter(targets)) if cpu in (yes, no) else None  # it is asked for what it is so far
            return self._either(statement.test, yes, no, target)
        return cpu


def _fails(block: list[ast.stmt]) -> bool:
    """Whether statements do nothing but say that something is wrong."""
    return bool(block) and isinstance(block[-1], ast.Raise)


def _is_none(binding: Binding) -> bool:
    """`device = None`, before the device is chosen."""
    value = binding.value
    return binding.how is How.ASSIGN and isinstance(value, ast.Constant) and value.value is None


def _plain(binding: Binding) -> ast.expr | None:
    """What a variable is set to as a whole."""
    return binding.value if binding.how is How.ASSIGN and not binding.path else None


def _is_part(node: ast.expr, bindings: list[Binding]) -> bool:
    """Whether an expression is a part of what one of these bindings gives."""
    return any(part is node for b in bindings if b.value is not None for part in walk(b.value))


def _template(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and str(node.value).startswith(("cuda:{", "xpu:{", "npu:{"))
