"""Arranges the stages of a script: in place, as functions with parameters or on globals, as methods of a trainer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.generated.chance import Chance, Stage, block, filled

_NAMES = {
    "args": ("args", "config", "opt", "cfg"),
    "device": ("device", "dev"),
    "cuda": ("use_cuda", "cuda", "use_gpu"),
    "model": ("model", "net", "network"),
    "optimizer": ("optimizer", "optim_", "opt_model"),
    "criterion": ("criterion", "loss_fn", "objective"),
    "scheduler": ("scheduler", "sched"),
    "train_loader": ("train_loader", "loader", "train_dl", "dataloader"),
    "test_loader": ("test_loader", "val_loader", "valid_dl"),
    "x": ("x", "inputs", "images", "data"),
    "y": ("y", "targets", "labels"),
    "out": ("out", "outputs", "logits", "pred"),
    "loss": ("loss", "loss_value"),
    "epoch": ("epoch", "ep"),
    "metric": ("metric", "val", "score"),
    "best": ("best", "best_score"),
    "data_x": ("X", "features"),
    "data_y": ("Y", "labels_all"),
}
# How often what is done in each epoch is a function.
_LOOPS = 0.5
# What methods and functions on globals pass on instead of keeping it.
_PASSED = frozenset({"epoch", "metric"})


@dataclass(frozen=True)
class Parts:
    """A script before it is arranged: what comes before the epochs, in each of them, and after them."""

    setup: list[Stage]
    before: str
    epoch: list[Stage]
    final: Stage
    kept: tuple[str, ...] = ()  # variables that `before` binds
    definitions: list[str] = field(default_factory=list)


class Arrangement:
    """One way to write a script."""

    def __init__(self, chance: Chance, parts: Parts) -> None:
        self._chance = chance
        self._parts = parts
        self._names = self._named()
        self._functions: list[str] = []

    def text(self) -> str:
        """The definitions and the body of the script, without imports."""
        shape = self._chance.named("shape", {"flat": "flat", "main": "main", "trainer": "trainer"}, {"trainer": 1})
        if shape == "trainer":
            body = self._trainer()
        else:
            body = self._body(shape == "main")
        if shape == "main" and self._chance.maybe(0.2):
            body = f"def main():\n{block(body, depth=1)}\n\n\nmain()"
        elif shape == "main":
            body = f'def main():\n{block(body, depth=1)}\n\n\nif __name__ == "__main__":\n    main()'
        elif self._chance.maybe(0.3):
            body = f'if __name__ == "__main__":\n{block(body, depth=1)}'
        definitions = [text.strip("\n") for text in self._parts.definitions if text.strip()]
        return "\n\n\n".join([*definitions, *self._functions, body]) + "\n"

    # ---- at module level, or in main()

    def _body(self, main: bool) -> str:
        known: list[str] = []
        lines = []
        for stage in self._parts.setup:
            lines.append(self._stage(stage, known, main, odds=0.25))
            known += stage.binds
        lines.append(self._fill(self._parts.before))
        known += self._parts.kept
        lines.append(self._epochs([self._stage(s, seen, main, odds=_LOOPS) for s, seen in self._seen(known)]))
        lines.append(self._stage(self._parts.final, known, main, odds=0.1))
        return block(*lines)

    def _seen(self, known: list[str]) -> Iterable[tuple[Stage, list[str]]]:
        seen = [*known, "epoch"]
        for stage in self._parts.epoch:
            yield stage, list(seen)
            seen += stage.binds

    def _stage(self, stage: Stage, known: list[str], main: bool, odds: float) -> str:
        """A stage in place; or its function, and the call."""
        if not stage.code or stage.inline or not self._chance.maybe(odds):
            return self._inline(stage, self._names)
        own = "closure" if main else "globals"
        how = self._chance.of("parameters", own) if odds == _LOOPS or self._chance.maybe(0.1) else "parameters"
        self._chance.traits.append(f"{stage.name}={how}")
        if how == "parameters":
            return self._with_parameters(stage, known)
        passed = [name for name in stage.mentioned if name in known and name in _PASSED]
        given = ", ".join(self._names[name] for name in passed)
        kept = [name for name in (*stage.binds, *stage.updates) if name not in _PASSED]
        returned = [name for name in stage.binds if name in _PASSED]
        if how == "closure":
            returned += [name for name in kept if name in stage.binds]
            shared = [name for name in kept if name not in stage.binds]
            outer = f"nonlocal {', '.join(self._names[n] for n in shared)}" if shared else ""
        else:
            outer = f"global {', '.join(self._names[n] for n in kept)}" if kept else ""
        text = self._defined(stage, given, self._names, outer, returned)
        call = self._called(returned, f"{stage.name}({given})")
        if how == "closure":
            return block(text, call)
        self._functions.append(text)
        return call

    def _with_parameters(self, stage: Stage, known: list[str]) -> str:
        given = [name for name in stage.mentioned if name in known]
        if self._chance.maybe(0.3):
            given = self._chance.shuffled(given)
        own = {**self._names, **{name: self._another(name) for name in given if self._chance.maybe(0.3)}}
        while len({own[name] for name in given}) < len(given):
            own = dict(self._names)
        returned = [*stage.binds, *stage.updates]
        self._functions.append(self._defined(stage, ", ".join(own[n] for n in given), own, "", returned))
        positional = self._chance.of(len(given), len(given), 0, 2)
        arguments = [
            self._names[name] if index < positional else f"{own[name]}={self._names[name]}"
            for index, name in enumerate(given)
        ]
        return self._called(returned, f"{stage.name}({', '.join(arguments)})")

    def _defined(self, stage: Stage, given: str, names: dict[str, str], outer: str, returned: list[str]) -> str:
        end = f"return {', '.join(names[name] for name in returned)}" if returned else ""
        body = block(outer, filled(stage.code, names), end, depth=1)
        return block(stage.decorator, f"def {stage.name}({given}):", body)

    def _called(self, returned: list[str], call: str) -> str:
        return f"{', '.join(self._names[name] for name in returned)} = {call}" if returned else call

    def _inline(self, stage: Stage, names: dict[str, str]) -> str:
        code = filled(stage.code, names)
        return block(f"with {stage.decorator[1:]}:", block(code, depth=1)) if stage.decorator else code

    def _epochs(self, lines: list[str]) -> str:
        header = self._chance.of("for $epoch in range($args.epochs):", "for $epoch in range(1, $args.epochs + 1):")
        return block(self._fill(header), block(*lines, depth=1))

    # ---- a trainer

    def _trainer(self) -> str:
        setup = [stage for stage in self._parts.setup if stage.code or stage.binds]
        outside = self._chance.of(1, 1, 2, len(setup) - 2, len(setup))
        given = [name for stage in setup[:outside] for name in stage.binds]
        own = {**self._names}
        own.update({name: f"self.{self._names[name]}" for stage in setup for name in stage.binds})
        own.update({name: f"self.{self._names[name]}" for name in self._parts.kept})
        methods: list[str] = []
        made = [f"self.{self._names[name]} = {self._names[name]}" for name in given]
        for stage in setup[outside:]:
            made.append(self._method(stage, own, methods, odds=0.3))
        made.append(filled(self._parts.before, own))
        methods.insert(0, self._def("__init__", given, block(*made), own))
        lines = [self._method(stage, own, methods, odds=0.7) for stage in self._parts.epoch]
        epochs = block(filled("for $epoch in range($args.epochs):", own), block(*lines, depth=1))
        methods.append(self._def("fit", [], block(epochs, self._method(self._parts.final, own, methods, 0.3)), own))
        name = self._chance.of("Trainer", "Solver", "Experiment")
        if self._chance.maybe(0.3):
            self._inherited(name, methods, given)
        else:
            self._functions.append(f"class {name}{self._chance.of('', '(object)')}:\n" + "\n\n".join(methods))
        arguments = ", ".join(self._names[n] for n in given)
        lines = [self._inline(stage, self._names) for stage in setup[:outside]]
        end = self._chance.of(f"trainer = {name}({arguments})\ntrainer.fit()", f"{name}({arguments}).fit()")
        body = block(*lines, end)
        if self._chance.maybe(0.4):
            self._functions.append(f"def main():\n{block(body, depth=1)}")
            return "main()"
        return body

    def _inherited(self, name: str, methods: list[str], given: list[str]) -> None:
        """The methods in a class and its base."""
        constructor, *others = methods
        base = [method for method in others if self._chance.maybe()]
        own = [method for method in others if method not in base]
        shape = self._chance.named("bases", {"knows-loop": "loop", "knows-all": "all", "calls-super": "super"})
        if shape == "loop":
            stubs = [f"{_header(method)}\n        raise NotImplementedError" for method in own if self._chance.maybe()]
            base, own = [*stubs, *base], [constructor, *own]
        elif shape == "all":
            base = [constructor, *base]
        else:
            parameters = [self._names[n] for n in given]
            call = f"super().__init__({', '.join(parameters)})"
            if self._chance.maybe(0.3):
                call = f"super({name}, self).__init__({', '.join(parameters)})"
            made = self._def("__init__", given, block(call, "self.started = True"), self._names)
            base, own = [constructor, *base], [made, *own]
        known = self._chance.of("Base", "BaseTrainer", "Loop")
        for title, body in ((f"{known}{self._chance.of('', '(object)')}", base), (f"{name}({known})", own)):
            self._functions.append(f"class {title}:\n" + ("\n\n".join(body) or "    pass"))

    def _method(self, stage: Stage, own: dict[str, str], methods: list[str], odds: float) -> str:
        """A stage in the place of a method; or its own method, and the call."""
        if not stage.code or stage.inline or not self._chance.maybe(odds):
            return self._inline(stage, own)
        given = [name for name in stage.mentioned if name in _PASSED and name not in stage.binds]
        returned = [name for name in stage.binds if name in _PASSED]
        end = f"return {', '.join(own[name] for name in returned)}" if returned else ""
        text = self._def(stage.name, given, block(filled(stage.code, own), end), own)
        methods.append(block(block(stage.decorator, depth=1), text) if stage.decorator else text)
        call = f"self.{stage.name}({', '.join(own[name] for name in given)})"
        return f"{', '.join(own[name] for name in returned)} = {call}" if returned else call

    def _def(self, name: str, given: list[str], body: str, own: dict[str, str]) -> str:
        parameters = ", ".join(["self", *(own[n].removeprefix("self.") for n in given)])
        return block(f"def {name}({parameters}):", block(body or "pass", depth=1), depth=1)

    # ---- names

    def _named(self) -> dict[str, str]:
        parts = self._parts
        mentioned = [name for stage in (*parts.setup, *parts.epoch, parts.final) for name in stage.mentioned]
        mentioned += [*Stage("", parts.before).mentioned, "epoch", "args"]
        names: dict[str, str] = {}
        for name in dict.fromkeys(mentioned):
            name_ = self._chance.of(*_NAMES.get(name, (name,)))
            names[name] = name_ if name_ not in names.values() else name
        return names

    def _another(self, name: str) -> str:
        return self._chance.of(*_NAMES.get(name, (name,)), f"the_{name}")

    def _fill(self, code: str) -> str:
        return filled(code, self._names)


def _header(method: str) -> str:
    """The first line of a method, which may be decorated."""
    return next(line for line in method.splitlines() if line.lstrip().startswith("def "))
