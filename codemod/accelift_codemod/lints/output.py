"""What every process writes, prints, downloads or saves."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.facts import files, library, paths, showing
from accelift_codemod.facts.plugins import may_share_otherwise
from accelift_codemod.facts.ranks import mentions_process, words
from accelift_codemod.facts.tree import walk
from accelift_codemod.facts.values import Evidence, Role
from accelift_codemod.facts.world import World
from accelift_codemod.lints import Lint
from accelift_codemod.plan import Edit, Finding, Operation, Severity

_CONSUMES = "consume_prefix_in_state_dict_if_present"
_SAVES = frozenset({"torch.save", "torch.serialization.save", "safetensors.torch.save_file"})
# These write into a file that was opened: opening it is what races.
_DUMPS = frozenset({"json.dump", "pickle.dump", "yaml.dump"})
_FOLDERS = frozenset({"os.makedirs", "os.mkdir"})
_OWN = frozenset(
    {"getpid", "uuid1", "uuid4", "mkdtemp", "mkstemp", "NamedTemporaryFile", "TemporaryDirectory", "devnull"}
)
# Words in the names of what may differ from process to process, and of variables of the environment that do.
_OWN_WORDS = frozenset("rank process proc pid worker main temp tmp temporary tempdir tmpdir tempfile tmpfile".split())
_VARIABLES = frozenset({"RANK", "LOCAL_RANK", "SLURM_PROCID", "SLURM_LOCALID"})
# Downloads that take turns by themselves (file locks of the Hugging Face libraries).
_LOCKED = ("datasets.", "huggingface_hub.", "kaggle")


class SaveWrapped(Lint):
    """On several processes Accelerate's prepared model is wrapped, and the wrapper's state dict has other keys: each
    begins with `module.`. What is saved cannot be loaded into the plain model, nor by the script itself on one process.
    (The bundled runtime's prepared models have the keys of the plain ones.)
    """

    code = "SAVE-WRAPPED"
    severity = Severity.ERROR
    title = "the wrapper's state dict is saved"
    fixed = "where the accelerator is at hand, and nothing is loaded into the wrapper"
    library = "accelerate"
    wrong = """\
accelerator.save(model.state_dict(), "model.pt")
"""
    right = """\
accelerator.save(accelerator.unwrap_model(model).state_dict(), "model.pt")
"""

    def check(self, world: World) -> Iterator[Finding]:
        seen: set[ast.AST] = set()
        for call in world.calls:
            if world.qualified(call) not in _SAVES and world.together.verb(call) != "save":
                continue
            if world.index.attributes.get(_CONSUMES) or world.mentions(_CONSUMES):
                continue
            obj = world.resolver.argument(call, 0, "obj") or (call.args[0] if call.args else None)
            if obj is None:
                continue
            yield from self._whole(world, call, obj)
            parts = [*world.flow.sources(obj, _names_its_state)]
            if any(map(self._strips, parts)):
                continue
            for part in parts:
                if part in seen or not self._state(world, part):
                    continue
                seen.add(part)
                assert isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)
                name = world.text(part.func.value)
                yield Finding(
                    self.code,
                    self.severity,
                    part.lineno,
                    f"`{world.text(part)}` is that of the wrapper on several processes: its keys begin with `module.`, "
                    "and the plain model does not load them",
                    f"save accelerator.unwrap_model({name}).state_dict(), or accelerator.get_state_dict({name})",
                    (Evidence(call.lineno, f"saved by `{world.text(call)}`"),),
                    self._fix(world, part),
                )

    def _whole(self, world: World, call: ast.Call, obj: ast.expr) -> Iterator[Finding]:
        """The prepared models that are pickled with their wrappers."""
        entries = (
            obj.values if isinstance(obj, ast.Dict) else obj.elts if isinstance(obj, (ast.List, ast.Tuple)) else [obj]
        )
        for entry in entries if world.wraps else ():
            models = world.prepared(entry, Role.MODEL)
            if models and all(map(world.wrapped, models)):
                name = world.text(entry)
                yield Finding(
                    self.code,
                    self.severity,
                    call.lineno,
                    f"`{world.text(call)}` pickles `{name}` with its wrapper on several processes: only several can "
                    "load it",
                    f"save accelerator.unwrap_model({name}).state_dict()",
                )

    def _fix(self, world: World, part: ast.AST) -> tuple[Edit, ...]:
        """`accelerator.unwrap_model(model).state_dict()`, unless the script loads what it saves into the wrapper."""
        name = world.accelerator_at(part)
        loads = world.index.methods.get("load_state_dict", [])
        if not name or not world.wraps or any(world.prepared(c.func.value, Role.MODEL) for c in loads):  # type: ignore[attr-defined]
            return ()
        assert isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)
        code = f"{name}.unwrap_model({{}})"
        return (self.edit(world, part.func.value, Operation.SURROUND, code),)

    def _strips(self, node: ast.AST) -> bool:
        """Whether a node may take the wrapper's prefix off keys: `key.removeprefix("module.")`, `key[7:]`."""
        if isinstance(node, ast.Slice):
            return node.lower is not None
        if isinstance(node, ast.Attribute) and node.attr == "partition":
            return True
        return isinstance(node, ast.Constant) and isinstance(node.value, str) and "module" in node.value

    def _state(self, world: World, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "state_dict"
            and bool(models := world.prepared(node.func.value, Role.MODEL))
            and (not world.wraps or all(map(world.wrapped, models)))
        )


class Writing(Lint):
    """A lint about files that every process writes."""

    def _own(self, world: World, call: ast.Call) -> bool:
        """Whether a file may be of the process's own, by its name: `rank`, or that of a sample of its share."""
        texts = paths.texts(world.resolver, call)
        if any(world.flow.from_batch(name) for text in texts for name in paths.origins(world.resolver, text)):
            return True
        for argument in self._names(world, call):
            if world.resolver.only(argument, Role.MODEL):
                continue
            if isinstance(argument, ast.JoinedStr) and world.flow.local(argument) is not None:
                return True  # its name holds a value of the process's own
            parts = [*world.flow.sources(argument)]
            if world.deals_items and any(isinstance(part, ast.Call) for part in parts):
                return True  # that of an item of its share, for all one can see
            for part in parts:
                name = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""
                if name in _OWN or not _OWN_WORDS.isdisjoint(words(name)):
                    return True
                if isinstance(part, ast.Constant) and part.value in _VARIABLES:
                    return True
        return False

    def _names(self, world: World, call: ast.Call) -> list[ast.expr]:
        """The arguments that may name the file: all but the object that is saved."""
        qualified, given = world.qualified(call), [k.value for k in call.keywords if k.arg not in ("obj", "tensors")]
        if qualified in _SAVES:
            return [*call.args[1:], *given]
        if qualified.startswith("numpy."):
            return [*call.args[:1], *(k.value for k in call.keywords if k.arg in ("file", "fname"))]
        return [*call.args, *given]


def _names_its_state(node: ast.AST) -> bool:
    """Where following what is saved ends: at what is called a state dict, and at what is unwrapped."""
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return called and node.func.attr in ("state_dict", "unwrap_model", "get_state_dict")  # type: ignore[attr-defined]


class SaveRace(Writing):
    """Every process runs the whole script. What is written outside of a guard is written by all of them, to the same
    place at the same time: what is left may be damaged, and folders that are made or removed may raise errors. Files
    that are named after samples of a prepared loader are fine: every process has other ones.
    """

    code = "SAVE-RACE"
    severity = Severity.WARNING
    title = "every process writes the same file"
    wrong = """\
torch.save(state, "checkpoint.pt")
"""
    right = """\
accelerator.save(state, "checkpoint.pt")
"""

    def check(self, world: World) -> Iterator[Finding]:
        for call in world.calls:
            what = self._writes(world, call)
            if not what or not world.facts.runs(call) or world.ranks.perhaps_alone(call) or self._own(world, call):
                continue
            if world.ranks.from_elsewhere(call) or world.fetching.at(call):
                continue  # whoever runs it may do so on one process; or it is about samples, of which each has its own
            remedy = self._remedy(world, call)
            yield Finding(
                self.code, self.severity, call.lineno, f"`{world.text(call)}` {what} on every process at once", remedy
            )

    def _remedy(self, world: World, call: ast.Call) -> str:
        if self._may_be_sharded(world, call):
            return (
                "hand accelerator.unwrap_model(...).save_pretrained is_main_process=accelerator.is_main_process, "
                "save_function=accelerator.save and state_dict=accelerator.get_state_dict(...), on every process"
            )
        given = [*call.args, *(k.value for k in call.keywords)]
        inside = [n for g in given for n in walk(g) if isinstance(n, ast.Call)]
        together = next((n for n in inside if world.together.of(n) or world.together.verb(n) == "get_state_dict"), None)
        if together is not None:  # under a guard, the others would wait
            if isinstance(call.func, ast.Attribute) and call.func.attr == "save_pretrained":
                return "give it is_main_process=accelerator.is_main_process and save_function=accelerator.save"
            shown = world.text(together)
            return f"keep `{shown}`, which all processes do, in a variable, and put the rest under a guard"
        if any(world.flow.local(g) is not None for g in given):
            asked = world.processes_at(call)
            return (
                f"put {asked}.process_index into the name, or gather what is written (accelerator.gather_for_metrics) "
                f"and write it under `if {asked}.is_main_process:`"
            )
        if world.qualified(call) in _SAVES:
            return "use accelerator.save, which only the main process does, or put it under a guard"
        return f"put it under `if {world.processes_at(call)}.is_main_process:`"

    def _may_be_sharded(self, world: World, call: ast.Call) -> bool:
        """Whether a prepared model saves itself of which each process may have a part: they do it together."""
        func = call.func
        if not isinstance(func, ast.Attribute) or func.attr not in ("save_pretrained", "push_to_hub"):
            return False
        models = world.prepared(func.value, Role.MODEL) or world.prepared(func.value, Role.OBJECT)
        return bool(models) and may_share_otherwise(world.resolver)

    def _is_caught(self, world: World, call: ast.Call) -> bool:
        """Whether the script goes on if a folder is there already."""
        statement = world.index.statement(call)
        block = world.index.parents[statement]
        handlers = block.handlers if isinstance(block, ast.Try) and statement in block.body else []
        return any(
            world.resolver.caught(h) & files.IF_THERE and not isinstance(h.body[-1], ast.Raise) for h in handlers
        )

    def _writes(self, world: World, call: ast.Call) -> str:
        qualified = world.qualified(call)
        if qualified in _SAVES:
            return "writes the same file"
        if qualified in _FOLDERS:
            flag = world.resolver.argument(call, 2, "exist_ok") if qualified == "os.makedirs" else None
            known = isinstance(flag, ast.Constant) and not flag.value
            harmless = (flag is not None and not known) or self._is_caught(world, call)
            return "" if harmless else "makes the same folder (and fails where it exists)"
        if qualified in library.SIDE_EFFECTS:
            if qualified in library.HARMLESS_EVERYWHERE or qualified in _DUMPS:
                return ""
            return "changes the same files"
        if world.resolver.builtin(call.func) == "open":
            mode = world.resolver.argument(call, 1, "mode")
            if isinstance(mode, ast.Constant) and isinstance(mode.value, str) and set(mode.value) & set("wax+"):
                return "opens the same file for writing"
            return ""
        func = call.func
        if isinstance(func, ast.Attribute) and not qualified and func.attr in library.WRITES:
            if any(k.arg in ("is_main_process", "save_function") for k in call.keywords) or not call.args:
                return ""
            if func.attr == "save_pretrained" and any(k.arg is None for k in call.keywords):
                return ""  # whoever gives the rest may say who writes
            return "writes the same file"
        return ""


class PrintAll(Lint):
    """Every process runs the whole script, and what it prints is printed as many times as there are processes, in
    whatever order. So is what `tqdm.write` prints, beside a disabled bar, too.
    """

    code = "PRINT-ALL"
    severity = Severity.NOTE
    title = "every process prints"
    fixed = "where the accelerator is at hand"
    wrong = """\
print(f"epoch {epoch}")
"""
    right = """\
accelerator.print(f"epoch {epoch}")
"""

    def check(self, world: World) -> Iterator[Finding]:
        if self._is_replaced(world):
            return
        for call in world.calls:
            beside = showing.is_written_beside_a_bar(world.resolver, call)
            if not (beside or world.resolver.builtin(call.func) == "print") or not world.facts.runs(call):
                continue
            if any(k.arg == "file" for k in call.keywords) or world.ranks.perhaps_alone(call):
                continue
            if any(mentions_process(a) or world.ranks.mentions_device(a) for a in call.args):
                continue  # each process is meant to say something
            if world.by_its_own(call) or world.fetching.at(call):
                continue  # what one process met, the others do not say
            yield Finding(
                self.code,
                self.severity,
                call.lineno,
                f"`{world.text(call)}` prints once for each process",
                self._remedy(world, call, beside),
                fix=() if beside else self._fix(world, call),
            )

    def _remedy(self, world: World, call: ast.Call, beside: bool) -> str:
        asked = world.processes_at(call)
        return f"put it under `if {asked}.is_main_process:`" if beside else f"write {asked}.print(...)"

    def _is_replaced(self, world: World) -> bool:
        """Whether the script puts another function in the place of `print`: one that only some processes print with."""
        stores = (a for a in world.index.attributes.get("print", []) if isinstance(a.ctx, ast.Store))
        return any(world.resolver.qualified(store) in showing.PRINTS for store in stores)

    def _fix(self, world: World, call: ast.Call) -> tuple[Edit, ...]:
        name = world.accelerator_at(call)
        if not name:
            return ()
        return (self.edit(world, call.func, Operation.BECOME, f"{name}.print"),)


class DownloadRace(Lint):
    """Every process downloads and unpacks the same files into the same place at once, and reads what another one is
    still writing. Under `with accelerator.main_process_first():` the main process does it, and the others find it done.
    """

    code = "DL-RACE"
    severity = Severity.WARNING
    title = "every process downloads the same files"
    wrong = """\
data = torchvision.datasets.MNIST("data", download=True)
"""
    right = """\
with accelerator.main_process_first():
    data = torchvision.datasets.MNIST("data", download=True)
"""

    def check(self, world: World) -> Iterator[Finding]:
        for call in world.calls:
            qualified = world.qualified(call)
            flag = next((k.value for k in call.keywords if k.arg == "download"), None)
            data = (
                qualified.startswith(("torchvision.datasets.", "torchaudio.datasets."))
                and isinstance(flag, ast.Constant)
                and flag.value is True
            )
            fetches = qualified in library.DOWNLOADS and not qualified.startswith(_LOCKED)
            if not (data or fetches) or not world.facts.runs(call) or world.ranks.perhaps_alone(call):
                continue
            yield Finding(
                self.code,
                self.severity,
                call.lineno,
                f"`{world.text(call)}` downloads the same files on every process at once",
                f"put it under `with {world.processes_at(call)}.main_process_first():`",
            )
