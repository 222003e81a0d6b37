"""What cannot be the same on several processes, whoever converts it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelift_codemod.batches import lengths, padding
from accelift_codemod.draft import Draft
from accelift_codemod.facts import Role, torch_ops
from accelift_codemod.facts.tree import is_constant
from accelift_codemod.measured import same_noise
from accelift_codemod.networks import gradient_hooks, modes, ready_networks
from accelift_codemod.plan import Edit, Finding, Severity
from accelift_codemod.rules import Explained, Rule

_TRANSFORMERS = frozenset({"Transformer", "TransformerEncoderLayer", "TransformerDecoderLayer"})
_ATTENTION = _TRANSFORMERS | {"MultiheadAttention"}
_DROPS_AT = {"MultiheadAttention": 2, "Transformer": 5, "TransformerEncoderLayer": 3, "TransformerDecoderLayer": 3}
_TRAINING = 5  # where F.batch_norm is told that
# What may be drawn alike, by its kind.
_DRAWN = {
    "noise": "the noise of the training loop is",
    "noise of an evaluation": "the noise of an evaluation, drawn for a process's share, is",
    "noise of its own": "the noise that a network or a data set draws is",
    "samples": "samples that a data set draws, whatever index it is asked for, are",
    "noise of collating": "the noise that a collate function draws is",
    "dropout": "dropout masks are",
}


class Notes(Rule):
    """Reports what makes results on several processes differ from those on one, however the script is converted:
    statistics of BatchNorm, dropout masks, noise drawn by the training loop, an evaluation, a network, a data set or a
    collate function. On one process nothing changes.
    """

    code = "NOTE"
    name = "limits of equality"
    findings = (
        Explained(
            "NOTE-BN",
            Severity.NOTE,
            "BatchNorm sees one process's share",
            "BatchNorm computes its statistics from the process's share of the batch. torch.nn.SyncBatchNorm computes "
            "them from the whole batch, at the price of communication.",
        ),
        Explained(
            "BN-UPDATE",
            Severity.WARNING,
            "BatchNorm's averages of one process's share",
            "torch.optim.swa_utils.update_bn passes over a loader to compute the averages that BatchNorm evaluates "
            "with. Over a prepared one, each process computes those of its share, and the main process saves its own.",
        ),
        Explained(
            "RNG-SAMENOISE",
            Severity.NOTE,
            "processes draw the same noise",
            "Processes that the script seeds alike draw the same noise and the same dropout masks. "
            "accelift.utils.set_seed(seed, device_specific=True), called after the models are made, gives each process "
            "its own, but for generators that the script makes itself, with a seed. What only decides which layers "
            "run, or which of several things is picked, has to be the same on every process; it is no such noise. It "
            "is a warning where a data set draws its samples and does not look at the index it is asked for: every "
            "process then has the same samples, and a batch is made of as many copies as there are processes.",
        ),
        Explained(
            "GRAD-HOOK",
            Severity.WARNING,
            "a hook changes gradients before they are averaged",
            "A hook on a parameter sees the gradient of one process's share, before the processes average theirs. What "
            "is not linear, such as clamping, then gives another gradient than on one process. So it is with a hook on "
            "what a network computes, and with the backward pass of an autograd function: the gradient of each sample "
            "is larger by the number of processes, since a mean over a share divides by fewer samples.",
        ),
        Explained(
            "BATCH-PADDED",
            Severity.NOTE,
            "a batch is padded to the longest sample of a share",
            "A collate function makes the samples of a batch as long as its longest one, or cuts them to its "
            "shortest, or the training loop cuts them to that; or its network pads packed sequences again. Each "
            "process has its own share, which may end up shorter. What leaves padding out (a mask, packed sequences, "
            "lengths) computes the same; a mean or a maximum over padded positions does not. It is a warning where "
            "the loss, or what a network makes of packed sequences that it has padded again, surely is one over these "
            "positions, and where samples are cut to the shortest.",
        ),
        Explained(
            "NOTEBOOK",
            Severity.NOTE,
            "a notebook runs on one process",
            "The code cells are converted in place; outputs and metadata are left alone. In a notebook there is one "
            "process, which computes what it did. notebook_launcher runs a function of the notebook on several.",
        ),
    )

    def plan(self, draft: Draft) -> Iterator[Edit | Finding]:
        layers = self._layers(draft)
        yield from self._updates(draft)
        padded = padding.collated(draft)
        yield from self._pads(draft, padded) if padded is not None else self._cuts(draft)
        yield from self._hooks(draft)
        synchronous = draft.facts.index.attributes.get("convert_sync_batchnorm")
        if "BatchNorm" in layers and not synchronous and not self._computes_alike(draft):
            yield draft.finding(
                "NOTE-BN",
                Severity.NOTE,
                layers["BatchNorm"],
                "BatchNorm computes its statistics from each process's share of the batch",
                "convert it with torch.nn.SyncBatchNorm if small shares hurt",
            )
        yield from self._noise(draft, same_noise.first_draws(draft) | layers)

    def _layers(self, draft: Draft) -> dict[str, ast.Call]:
        """The first BatchNorm and the first dropout that is trained."""
        first: dict[str, ast.Call] = {}
        for call in draft.calls:
            name = self._layer(draft, call)
            normalizes = name in torch_ops.BATCH_NORM or self._normalizes(draft, call)
            normalizes = normalizes or ready_networks.has_batch_norm(draft, call)
            drops = self._drops(draft, call, name) or ready_networks.has_dropout(draft, call)
            if (normalizes or drops) and modes.is_never_trained(draft, call):
                continue
            if normalizes:
                first.setdefault("BatchNorm", call)
            if drops:
                first.setdefault("dropout", call)
        return first

    def _updates(self, draft: Draft) -> Iterator[Finding]:
        """Averages of BatchNorm that are computed over a prepared loader."""
        for call in draft.facts.index.calls:
            loader = draft.facts.resolver.argument(call, 0, "loader")
            if draft.facts.resolver.qualified(call.func) != "torch.optim.swa_utils.update_bn":
                continue
            shared = any(draft.blueprint.is_prepared(v) for v in draft.facts.resolver.values(loader))
            if shared and not ready_networks.has_no_batch_norm(draft):
                yield draft.finding(
                    "BN-UPDATE",
                    Severity.WARNING,
                    call,
                    "every process computes the averages of BatchNorm from its share of the data, and saves no other",
                    "give it a DataLoader of its own, which is not prepared",
                )

    def _cuts(self, draft: Draft) -> Iterator[Finding]:
        """Samples that the training loop or its network makes as long as the longest of a share."""
        cut = padding.cut(draft)
        if cut is not None:
            pool = padding.pools(draft)
            yield draft.finding(
                "BATCH-PADDED",
                Severity.NOTE if pool is None else Severity.WARNING,
                pool or cut,
                f"`{draft.facts.short(pool)}` goes by places that are padded to the longest sample of a process's "
                "share, not of the batch"
                if pool is not None
                else "this makes samples as long as the longest of a process's share, not of the batch",
                "leave padding out of what is computed, or use a length of its own",
            )

    def _pads(self, draft: Draft, padded: ast.expr | ast.If) -> Iterator[Finding]:
        """Samples that a collate function makes as long as the longest of a share, or as short as its shortest."""
        averaged = padding.averaged(draft)
        if averaged is not None:
            yield draft.finding(
                "BATCH-PADDED",
                Severity.WARNING,
                averaged,
                f"`{draft.facts.segment(averaged.func)}(...)` is a mean over the positions of sequences that are "
                "padded to the longest of a process's share, so that every process divides by another number",
                "leave padding out of the loss and give accelerator.backward the number of what is left, "
                "weight=(labels != pad).sum(), or pad to a length of its own",
            )
        else:
            least = lengths.is_least(padded)
            yield draft.finding(
                "BATCH-PADDED",
                Severity.WARNING if least else Severity.NOTE,
                padded,
                f"this {'cuts to the shortest' if least else 'pads to the longest'} sample of a process's share, not "
                "of the batch",
                "leave padding out of what is computed, or pad to a length of its own",
            )

    def _hooks(self, draft: Draft) -> Iterator[Finding]:
        """Hooks that see the gradient of a share."""
        objects = draft.facts.objects
        for call in draft.facts.index.methods.get("register_hook", []):
            owner: ast.expr = call.func.value  # type: ignore[attr-defined]
            if draft.facts.runs(call) and (objects.is_parameter(owner) or objects.is_part(owner)):
                yield draft.finding(
                    "GRAD-HOOK",
                    Severity.WARNING,
                    call,
                    "this hook sees the gradient of a process's share, before the processes average theirs",
                    "change the gradients after accelerator.backward, unless what the hook does is linear",
                )
                break
        bent = next(gradient_hooks.bending(draft.facts), None)
        if bent is not None:
            yield draft.finding(
                "GRAD-HOOK",
                Severity.WARNING,
                bent,
                "this sees the gradient of a mean over a process's share, which is larger than that over the whole "
                "batch, and is not linear in it",
                "do it with the gradient divided by accelerator.num_processes, and multiply what comes out",
            )

    def _noise(self, draft: Draft, first: dict[str, ast.Call]) -> Iterator[Finding]:
        """Noise of each kind that every process draws alike."""
        told = "call set_seed(seed, device_specific=True) after the models are made"
        decided = next(same_noise.decided(draft), None) if _DRAWN.keys() & first.keys() else None
        if decided is not None:
            told += f", and give `{draft.facts.short(decided)}`, which has to be the same everywhere, its own generator"
        for kind, what in _DRAWN.items():
            if kind in first and same_noise.is_seeded(draft, kind, first[kind]):
                own = same_noise.generator(draft, first[kind])
                yield draft.finding(
                    "RNG-SAMENOISE",
                    Severity.WARNING if kind == "samples" else Severity.NOTE,
                    first[kind],
                    f"{what} the same on every process, as the script seeds them alike",
                    told if own is None else f"add the process's index to the seed of `{draft.facts.short(own)}`",
                )

    def _computes_alike(self, draft: Draft) -> bool:
        """Whether every process has all of each batch that training goes through: one sample, or what is whole."""
        loops = [loop.loaders for loop in draft.blueprint.train_loops] if draft.options.batch == "global" else []
        return bool(loops) and all(some and all(map(draft.facts.objects.deals_whole, some)) for some in loops)

    def _normalizes(self, draft: Draft, call: ast.Call) -> bool:
        """Whether a call computes statistics of a batch, as it trains."""
        if draft.facts.resolver.qualified(call.func) != "torch.nn.functional.batch_norm":
            return False
        told = draft.facts.resolver.argument(call, _TRAINING, "training")
        return told is not None and not is_constant(told, False)

    def _drops(self, draft: Draft, call: ast.Call, name: str) -> bool:
        """Whether a layer, or a function, leaves out by chance, and not surely with a chance of zero."""
        if name.startswith(("Dropout", "AlphaDropout", "FeatureAlphaDropout", "dropout")):
            given = draft.facts.resolver.argument(call, int(name[0].islower()), "p")
        elif name in torch_ops.RECURRENT or name in _ATTENTION:
            given = draft.facts.resolver.argument(call, _DROPS_AT.get(name), "dropout")
            if given is None and name not in _TRANSFORMERS:
                return False  # which have none if not told so
        else:
            return False
        values = draft.facts.resolver.values(given)
        return not values or any(v.role is not Role.CONSTANT or v.keys != (0,) for v in values)

    def _layer(self, draft: Draft, call: ast.Call) -> str:
        qualified = draft.facts.resolver.qualified(call.func) or ""
        module, _, name = qualified.rpartition(".")
        return name if module in ("torch.nn", "torch.nn.functional") else ""
