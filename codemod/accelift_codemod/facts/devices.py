"""What is a device, how the script chooses it, and when that is the CPU although an accelerator is there."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise

from accelift_codemod.facts import supposed, whereabouts, written
from accelift_codemod.facts.conditions import FALSE, TRUE, Condition, choose
from accelift_codemod.facts.device_variables import DeviceVariable, DeviceVariables
from accelift_codemod.facts.gpu_numbers import CPU, DEVICE, GpuNumbers, is_template, plain
from accelift_codemod.facts.index import FUNCTIONS, Binding, How, position
from accelift_codemod.facts.mixed_devices import MixedDevices
from accelift_codemod.facts.names import is_placeholder
from accelift_codemod.facts.processes import Processes
from accelift_codemod.facts.settings_files import SettingsFiles
from accelift_codemod.facts.simplifying import Conditions
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Role

_CHOOSING = frozenset({"torch.accelerator.current_accelerator", "peft.utils.infer_device"})  # the GPU, if there is one
_UNSET = Condition("unset")  # of a variable that nothing can read yet
_Targets = Mapping[ast.AST, Binding]  # what a device is assigned to, and the bindings


class Devices:
    """Answers that for expressions, and for the statements that choose."""

    def __init__(self, conditions: Conditions, processes: Processes) -> None:
        self.conditions = conditions
        self.resolver = conditions.resolver
        self.index = conditions.index
        self.command_line = conditions.command_line
        self.processes = processes
        self.segment = conditions.segment
        self.runs = conditions.runs
        self.numbers = GpuNumbers(self)
        self.mixed = MixedDevices(self.resolver)
        self.settings = SettingsFiles(self.resolver, self.command_line)
        self._handed: set[Binding] = set()  # parameters that certainly are devices

    # ---- expressions

    def is_device(self, node: ast.AST | None, depth: int = 0) -> bool:
        """Whether an expression denotes a device."""
        if node is None or depth > 8:
            return False
        held = written.entry(self.resolver, node) if isinstance(node, (ast.Subscript, ast.Call)) else None
        if held is not None:
            return self.is_device(held, depth + 1)
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str) and bool(DEVICE.match(node.value))
        if isinstance(node, ast.JoinedStr):
            first = node.values[0] if node.values else None
            return isinstance(first, ast.Constant) and str(first.value).startswith(("cuda", "xpu", "npu"))
        if isinstance(node, ast.BinOp):
            left = node.left
            return isinstance(left, ast.Constant) and str(left.value).startswith(("cuda", "xpu", "npu"))
        if isinstance(node, ast.IfExp):
            if whereabouts.asks(self.resolver, node.test):
                return False  # no choice: where a tensor is already
            named = [arm for arm in (node.body, node.orelse) if self.is_device(arm, depth + 1)]
            others = [a for a in (node.body, node.orelse) if a not in named and not self.conditions.is_nothing(a)]
            return bool(named) and (not others or (self.numbers.is_numeral(others[0]) and self.mixed.are_devices(node)))
        if isinstance(node, ast.BoolOp):
            return any(self.is_device(v, depth + 1) for v in node.values)
        if isinstance(node, ast.Call):
            qualified = self.resolver.qualified(node.func) or ""
            if qualified in _CHOOSING or whereabouts.is_current(self.resolver, node):
                return True
            if qualified == "torch.device":
                return not any(map(self.follows, (*node.args, *(k.value for k in node.keywords))))
            func = node.func
            if isinstance(func, ast.Attribute) and func.attr == "format":
                return self.is_device(func.value, depth + 1) or is_template(func.value)
            if self.settings.says_where(node):
                return True
            target = self.resolver.callee(node)
            if isinstance(target, FUNCTIONS):
                returned = self.resolver.returns(target)
                return bool(returned) and all(self.is_device(r.value, depth + 1) for r in returned)
            return False
        if isinstance(node, ast.Name):
            return self.bind_devices(self.resolver.bindings(node), depth + 1)
        if isinstance(node, ast.Attribute):
            if any(v.role is Role.DEVICE for v in self.resolver.values(node)):
                return True
            if node.attr == "type" and isinstance(node.value, ast.Call):
                return self.is_device(node.value, depth + 1)  # `torch.accelerator.current_accelerator().type`
            found = self.index.set_as_spelled(node)
            if found:
                return all(self._binds_device(b, depth + 1) for b in found)
            field = written.field(self.resolver, node)
            if self.option(node) is not None or (field is not None and self._binds_device(field, depth + 1)):
                return True
        return isinstance(node, (ast.Attribute, ast.Subscript)) and self.settings.says_where(node)

    def _binds_device(self, binding: Binding, depth: int) -> bool:
        if binding.how is not How.PARAMETER:
            return self.chooses(binding) and all(self.is_device(given, depth) for given in self._given(binding))
        said = self.command_line.handed(binding)
        if said is not None:
            return self.is_device(said, depth)
        if binding not in self._handed:  # of each once: there may be many calls, of functions with many calls
            arguments = self.resolver.handed(binding, self.runs)
            if not arguments or not all(self.is_device(a, depth) for a in arguments):
                return False
            self._handed.add(binding)
        return True

    def bind_devices(self, bindings: list[Binding], depth: int) -> bool:
        """Whether a variable holds a device: one that the script chooses, or what an option (or a setting) says, or the
        number of a GPU, where that is one."""
        chosen = [b for b in bindings if not is_placeholder(b)]
        told = [b for b in chosen if len(chosen) > 1 and self._is_one_of_several(b)]
        return len(told) < len(chosen) and all(self._binds_device(b, depth) for b in chosen if b not in told)

    def _is_one_of_several(self, binding: Binding) -> bool:
        if self.command_line.handed(binding) is not None or self.conditions.hands_nothing(binding):
            return True
        value = plain(binding)
        number = self.numbers.is_numeral(value) and self.mixed.is_read_so(binding.node)
        return number or self.is_told(value) or self._is_setting(value) or self.conditions.is_nothing(value)

    def chooses(self, binding: Binding) -> bool:
        """Whether a binding is an assignment, and not made only where another tensor is on a certain device."""
        return (
            binding.how is How.ASSIGN
            and None not in self._given(binding)
            and not any(
                isinstance(parent, ast.If) and whereabouts.asks(self.resolver, parent.test)
                for parent in self.index.ancestors(binding.node)
            )
        )

    def _given(self, binding: Binding) -> list[ast.expr | None]:
        """What a variable is set to; of one that is unpacked from a call, what the function returns in its place."""
        if not binding.path:
            return [binding.value]
        target = self.resolver.callee(binding.value) if isinstance(binding.value, ast.Call) else None
        returned = self.resolver.returns(target) if isinstance(target, FUNCTIONS) else []
        return [_in_place(r.value, binding.path) for r in returned] or [None]

    def follows(self, node: ast.expr) -> bool:
        """Whether an expression is the place of a tensor."""
        return whereabouts.follows(self.resolver, node)

    def option(self, node: ast.Attribute) -> ast.Call | None:
        """The `add_argument` call of a command-line option that holds a device name by default."""
        if Role.ARGUMENTS not in self.resolver.roles(node.value):
            return None
        call = self.command_line.options.get(node.attr)
        if call is None:
            return None
        value = self.resolver.argument(call, None, "default")
        return call if self.is_device(value) else None

    def said(self, node: ast.expr) -> ast.expr | None:
        """The device that an option of the command line is by default, or an entry of a dict that is written out, where
        the script never sets it to another."""
        held = written.entry(self.resolver, node)
        if held is not None:
            return held if self.is_device(held) else None
        if isinstance(node, ast.Attribute):
            option = self.option(node) if not self.index.set_as_spelled(node) else None
            return self.resolver.argument(option, None, "default") if option is not None else None
        default = self.command_line.word(node)
        return default if default is not None and self.is_device(default) else None

    def cpu(self, node: ast.expr | None, depth: int = 0) -> Condition | None:
        """When a device expression is the CPU although an accelerator is there; None if that cannot be told."""
        node = written.entry(self.resolver, node) or node
        if node is None or depth > 8:
            return None
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                return TRUE if CPU.match(node.value) else FALSE if DEVICE.match(node.value) else None
            return FALSE if isinstance(node.value, int) else None
        if isinstance(node, ast.IfExp):
            outcome = self.conditions.read(node.test).constant
            if outcome is not None:
                return self.cpu(node.body if outcome else node.orelse, depth + 1)
            yes, no = self.cpu(node.body, depth + 1), self.cpu(node.orelse, depth + 1)
            if yes is None or no is None:
                return None
            return self._either(node.test, yes, no)
        if isinstance(node, ast.BoolOp):
            first, *others = node.values
            if isinstance(node.op, ast.Or) and len(others) == 1 and self.conditions.is_nothing(first):
                return self.cpu(others[0], depth + 1)
            yes = self.cpu(first, depth + 1)
            if not isinstance(node.op, ast.Or) or len(others) > 1 or not self.is_told(first):
                return yes
            no = self.cpu(others[0], depth + 1)
            return None if yes is None or no is None else self._either(first, yes, no)
        if isinstance(node, ast.Call) and not self.settings.says_where(node):
            return self._given_by(node, depth)
        if isinstance(node, (ast.JoinedStr, ast.BinOp)):
            return FALSE if self.is_device(node) else None
        if isinstance(node, ast.Attribute) and node.attr == "type" and isinstance(node.value, ast.Call):
            return self.cpu(node.value, depth + 1)
        if isinstance(node, ast.Attribute) and (self.option(node) is not None or self.is_told(node)):
            if not self.index.set_as_spelled(node) or self.is_before(node):
                return self.conditions.atom(node, ' == "cpu"')
        if self._is_setting(node) and isinstance(node, ast.Attribute) and not self.index.set_as_spelled(node):
            return self.conditions.atom(node, ' == "cpu"', setting=True)
        if self.settings.says_where(node):
            return self.conditions.atom(node, ' == "cpu"', setting=isinstance(node, ast.Attribute))
        return FALSE if self.numbers.is_option(node) else self._held(node, depth)

    def _given_by(self, call: ast.Call, depth: int) -> Condition | None:
        """When a call gives the CPU."""
        qualified = self.resolver.qualified(call.func) or ""
        if qualified in _CHOOSING or qualified == "torch.cuda.current_device":
            return FALSE
        if qualified == "torch.device":
            chosen = self.resolver.argument(call, 0, "device") or self.resolver.argument(call, 0, "type")
            return self.cpu(chosen, depth + 1)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "format":
            return FALSE if is_template(call.func.value) else None
        target = self.resolver.callee(call)
        return self._returned(target.body, depth + 1) if isinstance(target, FUNCTIONS) else None

    def _held(self, node: ast.expr, depth: int) -> Condition | None:
        """When a variable is the CPU, by what it is set to or handed."""
        bindings: list[Binding] = []
        if isinstance(node, (ast.Name, ast.Attribute)):
            bindings = [b for b in self.bindings(node) if not is_placeholder(b)]
        if len(bindings) == 1 and bindings[0].how is How.ASSIGN and not bindings[0].path:
            if isinstance(node, ast.Attribute) and self._is_later(bindings[0], node):
                told = self.is_told(node)
                return self.conditions.atom(node, ' == "cpu"') if told else self._otherwise(bindings[0], node, depth)
            if self._perhaps(bindings):  # else it is what the command line said
                return self.region(bindings)[2] if depth < 2 else None
            return self.cpu(bindings[0].value, depth + 1)
        if len(bindings) == 1 and bindings[0].how is How.PARAMETER:
            if self.is_told(node):
                return self.conditions.atom(node, ' == "cpu"')
            given = {self.cpu(argument, depth + 1) for argument in self.resolver.handed(bindings[0], self.runs)}
            return given.pop() if len(given) == 1 else None
        if _is_part(node, bindings):
            return None
        if len(bindings) > 1 and self.bind_devices(bindings, depth + 1):
            return self._chosen(sorted(bindings, key=lambda b: position(b.node)), depth)
        return None

    def _chosen(self, bindings: list[Binding], depth: int) -> Condition | None:
        """When a variable is the CPU that is set in several places, or handed to the function that sets it again."""
        bindings = [b for b in bindings if not self.conditions.hands_nothing(b)]
        handed = [b for b in bindings if b.how is How.PARAMETER]
        chosen = [b for b in bindings if b.how is How.ASSIGN]
        if len({self.index.function(b.node) for b in chosen}) != 1 or len(handed) + len(chosen) < len(bindings):
            return None
        given = {self.cpu(a, depth + 1) for b in handed for a in self.resolver.handed(b, self.runs)}
        start = given.pop() if len(given) == 1 else None
        if len(handed) == 1 and self.command_line.handed(handed[0]) is not None:
            start = self.conditions.atom(chosen[0].node, ' == "cpu"')  # type: ignore[arg-type]
        return None if handed and start is None else self.region(chosen, start)[2]

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

    def _is_setting(self, node: ast.expr | None) -> bool:
        """Whether an expression is an attribute that is asked whether it is some word: `config.device == "auto"`."""
        return isinstance(node, ast.Attribute) and self.command_line.is_a_word(node)

    def _is_later(self, binding: Binding, node: ast.Attribute) -> bool:
        """Whether an attribute may be what it was before a statement sets it: that comes later, or under a condition
        that is not asked."""
        if not isinstance(binding.node, ast.Attribute):
            return False
        if self._perhaps([binding]):
            here = self.index.function(binding.node) is self.index.function(node)
            return here and position(binding.node) > position(node)
        return not self.conditions.certainty.is_set(binding.node, node)

    def _otherwise(self, binding: Binding, node: ast.Attribute, depth: int) -> Condition | None:
        """When an attribute is the CPU that is set again where there is no accelerator: by what its object is made."""
        chain = self.index.chain(binding.node)
        around = ((p.test, inner in p.body) for p, inner in pairwise(chain) if isinstance(p, ast.If))
        never = any(self.conditions.read(test) == (FALSE if yes else TRUE) for test, yes in around)
        made = {v.declaration for v in self.resolver.values(node.value)} if never else set()
        given = [b.value for cls in made if cls is not None for b in self.index.set_in(cls, node.attr)]
        found = {self.cpu(value, depth + 1) for value in given}
        return found.pop() if len(found) == 1 else None

    def _perhaps(self, bindings: list[Binding]) -> list[ast.If]:
        """The conditions, the inner ones first, under which alone an option of the command line is set, or a parameter
        that has none yet."""
        node = bindings[0].node
        if not isinstance(node, (ast.Name, ast.Attribute)) or not self.is_told(node):
            return self._where_nothing(bindings[0])
        return self.command_line.above(node)

    def _where_nothing(self, binding: Binding) -> list[ast.If]:
        """The condition under which a parameter is set that no call gives anything: `if device is None:`."""
        around = self.index.parents[self.index.statement(binding.node)]
        if not isinstance(around, ast.If) or around.orelse or self.conditions.read(around.test) != TRUE:
            return []
        asked = (n for n in walk(around.test) if isinstance(n, ast.Name) and n.id == binding.name)
        return [around] if any(map(self.conditions.is_nothing, asked)) else []

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
        bindings = self.index.set_as_spelled(node) if isinstance(node, ast.Attribute) else []
        return len(bindings) == 1 and _is_part(node, bindings)

    # ---- variables

    @cached_property
    def variables(self) -> list[DeviceVariable]:
        """Variables that hold the chosen device, in source order."""
        return DeviceVariables(self).found()

    def is_elsewhere(self, node: ast.expr) -> bool:
        """Whether a device expression always is the CPU, in a script that chooses its device otherwise."""
        if self.cpu(node) != TRUE:
            return False
        return not isinstance(node, (ast.Name, ast.Attribute)) or all(
            not any(b.value is one.value for one in v.bindings) for v in self.variables for b in self.bindings(node)
        )

    def may_be_elsewhere(self, node: ast.expr | None, depth: int = 0) -> bool:
        """Whether a device expression is the CPU so, or a parameter that is it by one of the calls of its function."""
        if node is None or depth > 8 or not self.is_device(node):
            return False
        bindings = self.resolver.bindings(node) if isinstance(node, ast.Name) else []
        handed = (a for b in bindings if b.how is How.PARAMETER for a in self.resolver.handed(b, self.runs))
        return self.is_elsewhere(node) or any(self.may_be_elsewhere(a, depth + 1) for a in handed)

    def bindings(self, node: ast.Name | ast.Attribute) -> list[Binding]:
        """What gives a variable or an attribute its device, the field of a settings class included."""
        if isinstance(node, ast.Name):
            return self.resolver.bindings(node)
        field = written.field(self.resolver, node)
        return self.index.set_as_spelled(node) or ([field] if field is not None else [])

    def region(
        self, bindings: list[Binding], cpu: Condition | None = None
    ) -> tuple[tuple[ast.stmt, ...], bool, Condition | None]:
        """The sibling statements that choose a device, whether they do only that, and when it is the CPU; before them
        it is so where `cpu` says."""
        index = self.index
        chains = [index.chain(b.node) for b in bindings]
        depth = 0
        while cpu is None and all(len(c) > depth for c in chains) and len({c[depth] for c in chains}) == 1:
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
        targets: _Targets = {b.node: b for b in bindings}
        whole = len(places) == len(region) and all(self._only_chooses(s, targets) for s in region)
        first = bindings[0].node
        if self.is_told(first):
            cpu = self.conditions.atom(first, ' == "cpu"')  # type: ignore[arg-type]
        elif cpu is None and isinstance(first, ast.Name) and len(bindings) == len(bindings[0].scope.bindings[first.id]):
            cpu = _UNSET
        for statement in region:
            cpu = self._fold(statement, targets, cpu)
        return region, whole, None if cpu is _UNSET else cpu

    def _only_chooses(self, statement: ast.stmt, targets: _Targets) -> bool:
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

    def _fold(self, statement: ast.stmt, targets: _Targets, cpu: Condition | None) -> Condition | None:
        if isinstance(statement, ast.Assign) and any(t in targets for t in statement.targets):
            return self.cpu(statement.value)
        unpacked = [b for b in targets.values() if b.path and self.index.statement(b.node) is statement]
        if unpacked:
            found = {self.cpu(given) for given in self._given(unpacked[0])}
            return found.pop() if len(found) == 1 else None
        if isinstance(statement, ast.AnnAssign) and statement.target in targets:
            return self.cpu(statement.value)
        if isinstance(statement, ast.If):
            outcome = self.conditions.read(statement.test).constant
            yes, no = cpu, cpu
            for inner in statement.body:
                yes = self._fold(inner, targets, yes)
            for inner in statement.orelse:
                no = self._fold(inner, targets, no)
            if outcome is not None:
                return yes if outcome else no
            if yes == no or no is _UNSET:
                return yes
            if yes is _UNSET:
                return no
            if yes is None or no is None:
                return None
            target = next(iter(targets)) if cpu in (yes, no) else None  # it is asked for what it is so far
            return self._either(statement.test, yes, no, target)
        return self._perhaps_fold(statement, targets, cpu)

    def _perhaps_fold(
        self, statement: ast.stmt, targets: Mapping[ast.AST, Binding], cpu: Condition | None
    ) -> Condition | None:
        """The same of a statement in which it may or may not be set, as where an error is caught."""
        inside = [s for s in walk(statement) if isinstance(s, (ast.Assign, ast.AnnAssign)) and s is not statement]
        found = {self._fold(s, targets, None) for s in inside if any(n in targets for n in walk(s))}
        return cpu if found <= {cpu} else None


def _in_place(node: ast.expr | None, path: tuple[int | None, ...]) -> ast.expr | None:
    """What stands in a place of a tuple that is written out; None if that cannot be told."""
    for step in path:
        if not isinstance(node, ast.Tuple) or step is None or not 0 <= step < len(node.elts):
            return None
        if any(isinstance(e, ast.Starred) for e in node.elts):
            return None
        node = node.elts[step]
    return node


def _fails(block: list[ast.stmt]) -> bool:
    """Whether statements do nothing but say that something is wrong."""
    return bool(block) and isinstance(block[-1], ast.Raise)


def _is_part(node: ast.expr, bindings: list[Binding]) -> bool:
    """Whether an expression is a part of what one of these bindings gives."""
    return any(part is node for b in bindings if b.value is not None for part in walk(b.value))
