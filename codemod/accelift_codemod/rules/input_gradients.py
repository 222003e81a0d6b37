"""Reports gradients of what is dealt, which no process averages with those of others."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.draft import Draft
from accelift_codemod.facts import BatchLoop
from accelift_codemod.facts.index import FUNCTIONS
from accelift_codemod.facts.layout import Layout, Shape
from accelift_codemod.facts.tree import walk
from accelift_codemod.following.onward import Read, reached, reads_of
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule

# What asks how large a gradient is, most often to divide by that.
_NORMS = frozenset({"norm", "vector_norm", "matrix_norm"})
# What leaves nothing of how large a gradient is, or asks for that.
_SCALELESS = _NORMS | frozenset(
    "sign sgn normalize renorm argmax argmin argsort topk max min amax amin std abs ge gt le lt eq ne "
    "cosine_similarity softmax".split()
)
_DIVIDES = frozenset({"div", "div_", "true_divide", "divide"})
_MEANS = (Layout.MEAN, Layout.WEIGHTED)
_COMPUTES = frozenset({"pow", "square", "add", "add_", "sub", "sub_", "mul", "mul_"})
_CLEARS = frozenset({"zero_", "detach_"})


class InputGradients(Rule):
    """Reports a gradient of a loss with regard to a tensor that has a row for each sample, if the training goes on
    with it as it is: a step of gradient ascent on the images, a penalty on such gradients.

    The gradients of parameters are averaged over the processes, those of samples are not. So they are larger than on
    one process: a mean over a share divides by fewer samples. Where only the sign of a gradient is used, or that of
    each sample is divided by its norm, that makes no difference; the norm of all that a process has is another one.
    """

    code = "INPUTGRAD"
    name = "gradients of samples"
    findings = (
        Explained(
            "GRAD-INPUT",
            Severity.WARNING,
            "gradients of samples are averaged by nobody",
            "The gradient of a mean loss with regard to one sample is divided by the number of samples: on several "
            "processes, by that of the process's share. accelerator.backward makes the gradients of the parameters "
            "those of the whole batch by averaging them over the processes; nobody averages those of samples, which "
            "are larger by the number of processes. Divide them by accelerator.num_processes, or ask "
            "torch.autograd.grad for the gradient of the sum of the losses.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        if draft.facts.processes.managed or draft.options.batch != "global":
            return
        told: set[ast.AST] = set()
        for loop in (*draft.blueprint.train_loops, *draft.blueprint.attacking_loops):
            if loop in draft.blueprint.handmade or not draft.blueprint.shares_batches(loop):
                continue
            for node in _run(draft, loop):
                starts = [] if node in told else self._gradient(draft, loop, node)
                whole = _norm_of_all(draft, starts)
                if whole is not None:
                    told.add(node)
                    yield draft.finding(
                        "GRAD-INPUT",
                        Severity.WARNING,
                        whole,
                        f"`{draft.facts.segment(whole)}` is a norm of the gradients of all samples that a process has, "
                        "not of each: of a share it is another one than of the whole batch",
                        "divide the gradient of each sample by its own norm (dim=1)",
                    )
                    break
                if starts and self._matters(draft, starts):
                    told.add(node)
                    yield draft.finding(
                        "GRAD-INPUT",
                        Severity.WARNING,
                        node,
                        f"`{draft.facts.segment(node)}` is a gradient of samples, which is larger than on one process "
                        "by the number of processes: only those of parameters are averaged",
                        "divide it by accelerator.num_processes, or take torch.autograd.grad of the sum of the losses",
                    )
                    break  # the others say the same

    def _gradient(self, draft: Draft, loop: BatchLoop, node: ast.AST) -> list[Read]:
        """Where such a gradient is read, if a node is one."""
        starts: list[Read] = []
        if isinstance(node, ast.Call) and draft.facts.resolver.qualified(node.func) == "torch.autograd.grad":
            argument = draft.facts.resolver.argument
            outputs, inputs = argument(node, 0, "outputs"), argument(node, 1, "inputs")
            parts = inputs.elts if isinstance(inputs, (ast.Tuple, ast.List)) else [inputs]
            rows = parts and all(self._read(draft, loop, node, p) is Layout.ROWS for p in parts if p is not None)
            if not rows or self._read(draft, loop, node, outputs) not in _MEANS:
                return []
            statement = draft.facts.index.statement(node)
            starts = [node, *(reads_of(draft, statement) if isinstance(statement, ast.Assign) else [])]
        elif isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Load):
            if _clears(draft, node) or self._read(draft, loop, node, node.value) is not Layout.ROWS:
                return []
            if not self._of_loss(draft, loop, node):
                return []
            starts = [node]
        return starts

    def _read(self, draft: Draft, loop: BatchLoop, at: ast.AST, part: ast.expr | None) -> Shape | None:
        env = draft.environment(loop, draft.facts.index.statement(at))
        return draft.facts.layouts.read(part, env) if env is not None and part is not None else None

    def _of_loss(self, draft: Draft, loop: BatchLoop, node: ast.AST) -> bool:
        """Whether the function runs backward from a mean over the samples, or a sum that is made that of all."""
        function = draft.facts.index.function(node)
        calls = [c for c in _run(draft, loop) if draft.facts.loops.is_backward(c)]
        return any(
            isinstance(c, ast.Call)
            and isinstance(c.func, ast.Attribute)
            and self._read(draft, loop, c, c.func.value) in (*_MEANS, Layout.SUM)
            for c in calls
            if draft.facts.index.function(c) is function
        )

    def _matters(self, draft: Draft, starts: list[Read]) -> bool:
        """Whether a gradient flows into what is computed on, and nowhere into what asks only for its direction."""
        computed = False
        for use in reached(draft, starts):
            for parent in draft.facts.index.ancestors(use):
                if _operation(parent) in _NORMS and not _divides(draft, parent):
                    continue
                if _is_scaleless(draft, parent):
                    return False
                if isinstance(parent, ast.stmt):
                    computed = computed or isinstance(parent, ast.AugAssign)
                    break
                computed = computed or isinstance(parent, ast.BinOp) or _operation(parent) in _COMPUTES
                computed = computed or draft.facts.loops.is_backward(parent)
        return computed


def _run(draft: Draft, loop: BatchLoop) -> Iterator[ast.AST]:
    """The nodes that an iteration runs, in functions of the script, too."""
    seen: set[ast.AST] = set()
    for statement in loop.body:
        yield from walk(statement)
        for function in draft.blueprint.timeline.calls_into(statement):
            if function not in seen and isinstance(function, FUNCTIONS):
                seen.add(function)
                for inner in function.body:
                    yield from walk(inner)


def _is_scaleless(draft: Draft, node: ast.AST) -> bool:
    """Whether an expression has nothing of how large a part of it is: its sign, a quotient by a norm, a comparison."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        names = (n for n in walk(node.right) if isinstance(n, ast.Name))
        made = (b.value for name in names for b in draft.facts.resolver.bindings(name) if b.value is not None)
        return any(_operation(n) in _SCALELESS for divisor in (node.right, *made) for n in walk(divisor))
    return isinstance(node, ast.Compare) or _operation(node) in _SCALELESS


def _norm_of_all(draft: Draft, starts: list[Read]) -> ast.Call | None:
    """A norm over all samples of a gradient that something is divided by: `delta.grad / delta.grad.norm()`."""
    for use in reached(draft, starts):
        outer = draft.facts.index.parents.get(use)
        norm = draft.facts.index.parents.get(outer) if isinstance(outer, ast.Attribute) else outer
        if (
            isinstance(norm, ast.Call)
            and _operation(norm) in _NORMS
            and draft.facts.layouts.choosing.is_statistic(norm)
        ):
            if _divides(draft, norm):
                return norm
    return None


def _divides(draft: Draft, norm: ast.AST) -> bool:
    """Whether a norm, or what is made of it, divides something or is compared: it is no penalty then."""
    assert isinstance(norm, ast.Call)
    for read in reached(draft, [norm]):
        child: ast.AST = read
        for parent in draft.facts.index.ancestors(read):
            divided = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div) and parent.right is child
            divided = divided or (isinstance(parent, ast.AugAssign) and isinstance(parent.op, ast.Div))
            given = isinstance(parent, ast.Call) and child in parent.args and _operation(parent) in _DIVIDES
            if divided or given or isinstance(parent, ast.Compare):
                return True
            if isinstance(parent, ast.stmt):
                break
            child = parent
    return False


def _operation(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _clears(draft: Draft, node: ast.Attribute) -> bool:
    """Whether a gradient is only cleared, or asked for."""
    outer = draft.facts.index.parents.get(node)
    if isinstance(outer, ast.Attribute) and outer.attr == "data":
        outer = draft.facts.index.parents.get(outer)
    return isinstance(outer, ast.Compare) or (isinstance(outer, ast.Attribute) and outer.attr in _CLEARS)
