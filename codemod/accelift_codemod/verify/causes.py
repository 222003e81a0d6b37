"""What may be behind a difference, and what to do about it."""

from __future__ import annotations

import math
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
    "DATA-CONTENT": "samples are made or changed otherwise: with another seed on each process, or by other transforms",
    "BATCH-SCALE": "each step sees more samples, or fewer, than the original's: split_batches, or scale batch size and "
    "learning rate by intention",
    "GRAD-SYNC": "gradients are not averaged over the processes: the model is not prepared, or its gradients come "
    "about beside the prepared one",
    "LOSS-SCALE": "the loss is divided or multiplied by another number: accumulation steps, number of processes, or "
    "its reduction",
    "LOSS": "the same samples give another loss: the forward pass, what the samples are, or the loss function differs",
    "LOSS-WEIGHT": "processes whose shares of a batch differ in size count the same: weigh the loss by its share "
    "(accelerator.backward does)",
    "TRAIN-MODE": "the model trains in another mode: model.train() or model.eval() is missing or comes at another time",
    "PRECISION": "results have another precision: autocast, a gradient scaler or a dtype was dropped or added",
    "ZERO-GRAD": "gradients of earlier steps are left in: zero_grad is missing or comes at another time",
    "CLIP": "gradients are clipped in one script only, or at another norm",
    "GRAD-OTHER": "gradients differ from the same loss: a parameter is frozen, detached or has another graph, or the "
    "optimizer has a copy of the model",
    "ACCUMULATION": "other optimizer steps are made: accumulation ends at other batches, or an optimizer is left out",
    "LEARNING-RATE": "the learning rate is another one from the beginning, perhaps scaled by the number of processes",
    "SCHEDULER": "learning rates differ: a scheduler steps more or less often, or was made with other numbers",
    "OPTIMIZER": "the same gradients give other updates: the optimizer's settings (weight decay, momentum, groups) or "
    "state differ",
    "MODEL-SET": "optimizers, or their parameters, differ",
    "METRIC-LOCAL": "values come from one process's part of the data: gather them first (gather_for_metrics)",
    "METRIC-TWICE": "values are added up over the processes more than once",
    "EVAL-MODE": "evaluation computes otherwise from the same parameters: model.eval() is missing, or what is computed "
    "differs",
    "EVAL-DATA": "evaluation sees other samples: another loader, or one process's part only",
    "EVAL-TAIL": "the evaluation leaves samples out or counts some twice: use gather_for_metrics",
    "PRINT-ALL": "every process prints: guard it (accelerator.print, is_main_process)",
    "PRINT-LOST": "lines are missing, or new",
    "WRITE-ALL": "several processes write the same file: guard it (is_main_process, accelerator.save)",
    "SAVE-KEYS": "the saved keys or shapes differ, so the original cannot load them: save the unwrapped model",
    "SAVE-PREFIX": "keys lose the `module.` that DataParallel puts before them: strip it from checkpoints saved before",
    "SAVE-LOST": "something is not saved any more",
    "SAVE-VALUES": "saved values differ though training agrees: it is saved at another time or from another object",
    "BATCHNORM": "batch normalization sees the samples of one process only",
    "ORDER": "samples are shuffled with other random numbers",
    "SCALER": "steps are skipped where scaled gradients overflow, which those of a part of the batch do at other steps",
    "NOISE": "each process draws random numbers (dropout, noise) of its own for its own samples",
}
"""What each code means."""


def candidates(answers: Iterable[Answer]) -> list[Suspicion]:
    """The causes of the differences, the most likely ones first, each once; none if nothing differs.

    What comes about later than the first difference may follow from it, and weighs less.
    """
    known = list(answers)
    times = [one.at for one in known if one.verdict is Verdict.DIFFERS and one.at is not None]
    found: dict[str, tuple[tuple[float, float], Suspicion]] = {}
    for answer in known if overall(known) is Verdict.DIFFERS else []:
        if answer.verdict is Verdict.NOT_COMPARABLE:
            continue  # a finding has announced it, or chance is behind it
        late = answer.at is not None and bool(times) and answer.at > min(times)
        for suspicion in answer.suspicions:
            weight = suspicion.weight - late
            order = (-weight, math.inf if answer.at is None else answer.at)
            if weight > 0 and (suspicion.code not in found or order < found[suspicion.code][0]):
                found[suspicion.code] = order, suspicion
    return [suspicion for _, suspicion in sorted(found.values(), key=lambda one: one[0])]


def overall(answers: Iterable[Answer]) -> Verdict:
    """The worst of the answers; questions that did not come up do not count."""
    ranks = list(Verdict)
    seen = [answer.verdict for answer in answers if answer.verdict is not Verdict.NOT_SEEN]
    return max(seen, key=ranks.index, default=Verdict.NOT_SEEN)
