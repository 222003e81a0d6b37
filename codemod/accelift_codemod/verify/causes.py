"""What may be behind a difference, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable

from accelift_codemod.verify.answers import Answer, Suspicion, Verdict

CAUSES = {
    "FAILED": "the converted script fails; read its error",
    "HANG": "processes wait for each other forever: a collective operation is under a guard or a condition that not "
    "all processes pass, or they make different numbers of steps",
    "INIT": "models begin with other values: random numbers are drawn in another order, or the seed is set elsewhere",
    "DATA-ORDER": "samples come in another order: the sampler's random numbers are drawn elsewhere",
    "DATA-UNSHARDED": "every process gets all samples: prepare the loader",
    "DATA-SHARDED-TWICE": "samples are dealt out twice: a prepared loader has a sampler of its own that deals them out",
    "DATA-TAIL": "samples at the end are left out or repeated: keep the uneven last batch (drop_last, even_batches)",
    "DATA-MISSING": "some samples are never dealt",
    "BATCH-SCALE": "each step sees more samples, or fewer, than the original's: split_batches, or scale batch size and "
    "learning rate by intention",
    "GRAD-SYNC": "gradients are not averaged over the processes: the model is not prepared, or its gradients come "
    "about beside the prepared one",
    "LOSS-SCALE": "the loss is divided or multiplied by another number: accumulation steps, number of processes, or "
    "its reduction",
    "LOSS": "the same samples give another loss: the forward pass, its mode (train/eval) or the loss function differs",
    "PRECISION": "results have another precision: autocast, a gradient scaler or a dtype was dropped or added",
    "ZERO-GRAD": "gradients of earlier steps are left in: zero_grad is missing or comes at another time",
    "CLIP": "gradients are clipped in one script only, or at another norm",
    "GRAD-OTHER": "gradients differ from the same loss: a parameter is frozen, detached or has another graph",
    "ACCUMULATION": "the number of optimizer steps differs: accumulation ends at other batches",
    "SCHEDULER": "learning rates differ: a scheduler steps more or less often, or was made with other numbers",
    "OPTIMIZER": "the same gradients give other updates: the optimizer's settings (weight decay, momentum, groups) or "
    "state differ",
    "MODEL-SET": "optimizers, or their parameters, differ",
    "METRIC-LOCAL": "values come from one process's part of the data: gather them first (gather_for_metrics)",
    "EVAL-MODE": "evaluation computes otherwise from the same parameters: model.eval(), no_grad or another loader",
    "EVAL-TAIL": "the evaluation leaves samples out or counts some twice: use gather_for_metrics",
    "PRINT-ALL": "every process prints: guard it (accelerator.print, is_main_process)",
    "PRINT-LOST": "lines are missing, or new",
    "WRITE-ALL": "several processes write the same file: guard it (is_main_process, accelerator.save)",
    "SAVE-KEYS": "the saved keys or shapes differ, so the original cannot load them: save the unwrapped model",
    "SAVE-LOST": "something is not saved any more",
    "SAVE-VALUES": "saved values differ though training agrees: it is saved at another time or from another object",
    "BATCHNORM": "batch normalization sees the samples of one process only",
    "NOISE": "each process draws random numbers (dropout, noise) of its own for its own samples",
}
"""What each code means."""


def candidates(answers: Iterable[Answer]) -> list[Suspicion]:
    """The causes that the answers suspect, the most likely ones first, each once."""
    found: dict[str, Suspicion] = {}
    order: dict[str, tuple[int, int]] = {}
    for position, answer in enumerate(answers):
        for suspicion in answer.suspicions:
            known = found.get(suspicion.code)
            if known is None or known.weight < suspicion.weight:
                found[suspicion.code] = suspicion
                # A cause that explains an earlier question explains the later ones with it.
                first = order[suspicion.code][1] if known is not None else position
                order[suspicion.code] = (-suspicion.weight, first)
    return sorted(found.values(), key=lambda one: order[one.code])


def overall(answers: Iterable[Answer]) -> Verdict:
    """The worst of the answers; questions that did not come up do not count."""
    ranks = list(Verdict)
    seen = [answer.verdict for answer in answers if answer.verdict is not Verdict.NOT_SEEN]
    return max(seen, key=ranks.index, default=Verdict.NOT_SEEN)
