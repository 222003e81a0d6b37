"""Networks beside the prepared ones, of which every process would have other weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.chance import seeds
from accelift_codemod.draft import Draft
from accelift_codemod.facts.effects import loads
from accelift_codemod.facts.index import FUNCTIONS, How
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Key, Role, Value, key

_LAYERS = ("Linear", "Conv", "Embedding", "LSTM", "GRU", "RNN", "Bilinear", "MultiheadAttention", "Transformer")
_FETCHED = ("torchvision.models", "torch.hub.", "timm.", "transformers.")
_CHOOSES = ("torchvision.models.", "timm.create_model")  # these fetch weights only where they are asked to
_COPIES = ("copy.deepcopy", "copy.copy")
_COPIED = 4  # times that a copy is made of a copy


def own_networks(draft: Draft) -> Iterator[Value]:
    """The networks that are run beside the prepared ones, with weights that each process has drawn for itself."""
    networks = _Networks(draft)
    for model in networks.beside():
        if networks.is_drawn(model):
            yield model


class _Networks:
    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.facts = draft.facts
        self.resolver = draft.facts.resolver
        self.loads: dict[Key, list[ast.Call]] = {}
        for call in draft.facts.index.methods.get("load_state_dict", []):
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            for value in self.resolver.values(receiver):
                self.loads.setdefault(key(value), []).append(call)
        self.loading = {draft.facts.index.enclosing_class(c) for calls in self.loads.values() for c in calls}

    def beside(self) -> list[Value]:
        """The networks that loops over batches run, and that neither are prepared nor belong to one that is."""
        found: dict[Key, Value] = {}
        parts = self._parts()
        for loop in (*self.draft.blueprint.train_loops, *self.draft.blueprint.eval_loops):
            if loop.node in self.draft.blueprint.peeks:
                continue
            functions = dict.fromkeys(f for s in loop.body for f in self.draft.blueprint.timeline.calls_into(s))
            for call in (n for part in (*loop.body, *functions) for n in walk(part) if isinstance(n, ast.Call)):
                if self.draft.blueprint.prepared_models(call.func):
                    continue
                for model in self.facts.objects.models(call.func):
                    part = self.facts.index.enclosing_class(model.origin)  # of a network that may be prepared
                    if part is not None and self.resolver.class_role(part) is Role.MODEL:
                        continue
                    if isinstance(model.origin, ast.Call) and model.origin not in parts:
                        found.setdefault(key(model), model)
        return list(found.values())

    def _parts(self) -> set[ast.AST]:
        """What the prepared networks are made of."""
        owners = [item.value.origin for item in self.draft.blueprint.items.values()]
        return {
            value.origin
            for owner in owners
            if isinstance(owner, ast.Call) and self.resolver.qualified(owner.func) not in _COPIES
            for argument in (*owner.args, *(k.value for k in owner.keywords))
            for value in self.resolver.values(argument)
        }

    def is_drawn(self, model: Value, steps: int = _COPIED) -> bool:
        """Whether a network certainly begins with weights that each process draws for itself."""
        made = model.origin
        if not isinstance(made, ast.Call) or self._is_loaded(model):
            return False
        if any(not self.is_drawn(source, steps - 1) for source in self._loaded_from(model) if steps):
            return False
        if self.resolver.qualified(made.func) in _COPIES:
            sources = self.facts.objects.models(made.args[0]) if made.args else ()
            return bool(sources) and bool(steps) and all(self._drawn_until(made, s, steps) for s in sources)
        return not seeds.seeded(self.draft, made, seeds.TORCH) and self._draws(model)

    def _drawn_until(self, copied: ast.Call, source: Value, steps: int) -> bool:
        """Whether a network, where it is copied, still has the weights that the process drew for it."""
        return not self.draft.blueprint.may_follow_prepare(copied, source) and self.is_drawn(source, steps - 1)

    def _is_loaded(self, model: Value) -> bool:
        """Whether a network is given weights that are the same everywhere, or may be.

        Not where it is only so if a training goes on, of which the prepared ones are given theirs, too.
        """
        cls = model.declaration
        if cls is not None and any(c in self.loading for c in self.resolver.ancestry(cls)):
            return True
        if any(self._copied_from(c) is None and not self._resumes(c) for c in self.loads.get(key(model), ())):
            return True
        return any(self._is_strange(call, model) for call in self.facts.index.calls)

    def _copied_from(self, load: ast.Call) -> Value | None:
        """The network whose weights another one is given: `teacher.load_state_dict(model.state_dict())`."""
        given = load.args[0] if load.args else None
        if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr == "state_dict":
            return next(iter(self.facts.objects.models(given.func.value)), None)
        return None

    def _loaded_from(self, model: Value) -> Iterator[Value]:
        """The networks of which another one is given the weights that are the same everywhere."""
        for load in self.loads.get(key(model), ()):
            source = self._copied_from(load)
            if source is not None and not self._drawn_until(load, source, 1):
                yield source

    def _resumes(self, load: ast.Call) -> bool:
        """Whether weights are loaded under a condition under which those of a prepared object are loaded, too."""
        index = self.facts.index
        choice = next((p for p in index.ancestors(load) if isinstance(p, (ast.If, *FUNCTIONS))), None)
        if not isinstance(choice, ast.If):
            return False
        prepared = {key(item.value) for item in self.draft.blueprint.items.values()}
        others = [call for one in prepared for call in self.loads.get(one, []) if choice in index.ancestors(call)]
        return any(call is not load for call in others) or (bool(others) and not self._is_told(choice))

    def _is_told(self, choice: ast.If) -> bool:
        """Whether each of several calls of a function says itself how a condition in it comes out: `mode == "test"`."""
        function = self.facts.index.function(choice)
        if function is None or len(self.resolver.sites(function)) < 2:
            return False
        bindings = (b for read in loads(choice.test) for b in self.resolver.bindings(read))
        return any(b.how is How.PARAMETER for b in bindings)

    def _is_strange(self, call: ast.Call, model: Value) -> bool:
        """Whether a function that is not known is handed a network: it may load weights into it."""
        if self.resolver.callee(call) is not None or self.resolver.builtin(call.func):
            return False
        if (self.resolver.qualified(call.func) or "").partition(".")[0] in ("torch", "copy", "accelift"):
            return False
        return any(
            key(value) == key(model)
            for argument in (*call.args, *(k.value for k in call.keywords))
            if isinstance(argument, ast.Name)
            for value in self.resolver.values(argument)
        )

    def _draws(self, model: Value) -> bool:
        """Whether the weights of a network are drawn: it has layers of torch, and fetches none of them."""
        classes = self.resolver.ancestry(model.declaration)
        calls = [model.origin] if not classes else [n for cls in classes for n in walk(cls)]
        made = [call for call in calls if isinstance(call, ast.Call)]
        fetched = any(self._fetches(call) for call in made)
        return self._has_new_layers(model) if fetched else any(map(self._is_layer, made))

    def _is_layer(self, call: ast.Call) -> bool:
        name = self.resolver.qualified(call.func) or ""
        if name == "torch.nn.Sequential" and call.args:
            return any(isinstance(a, ast.Call) and self._is_layer(a) for a in call.args)
        return name.startswith("torch.nn.") and name.rpartition(".")[2].startswith(_LAYERS)

    def _fetches(self, call: ast.Call) -> bool:
        name = self.resolver.qualified(call.func) or ""
        if not name.startswith(_FETCHED):
            return name == "torch.load"
        if not name.startswith(_CHOOSES):
            return True
        asked = [k.value for k in call.keywords if k.arg in ("weights", "pretrained", None)]
        asked += call.args[1:2] if name == "timm.create_model" else call.args[:1]
        return not all(isinstance(value, ast.Constant) and not value.value for value in asked)

    def _has_new_layers(self, model: Value) -> bool:
        """Whether layers of a network that was fetched are replaced by new ones: `net.fc = nn.Linear(512, 10)`."""
        for statement in (n for n in walk(self.facts.tree) if isinstance(n, ast.Assign)):
            target = statement.targets[0]
            if not isinstance(target, (ast.Attribute, ast.Subscript)):
                continue
            if not any(isinstance(n, ast.Call) and self._is_layer(n) for n in walk(statement.value)):
                continue
            while isinstance(target, (ast.Attribute, ast.Subscript)):
                target = target.value
                if any(value.origin is model.origin for value in self.resolver.values(target)):
                    return True
        return False
