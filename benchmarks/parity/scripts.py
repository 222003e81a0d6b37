"""Short training scripts: each as its author wrote it, for one process, and as it is converted.

A converted script is run with both libraries; it differs in nothing but the library.  Data, noise of the GAN
included, come from a fixed seed, and there is no layer that draws or that mixes the samples of a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.parity.classifier import (
    accumulation,
    accumulation_managed,
    autocast,
    clipping,
    clipping_managed,
    mixed_managed,
    plain,
    plain_managed,
    scaled,
    scaled_kept,
)
from benchmarks.parity.data import Loading, in_order, shuffled, subset
from benchmarks.parity.gan import gan, gan_managed
from benchmarks.parity.lbfgs import lbfgs, lbfgs_managed
from benchmarks.parity.library import Managed, Parameters
from benchmarks.parity.resume import Resuming, nothing


@dataclass(frozen=True)
class Script:
    """A script.

    Attributes:
        name: what it shows.
        plain: as its author wrote it.
        managed: as it is converted.
        rounding: how much more than 0 rounding may make of the difference on several processes.
        remark: what one must know to read its row.
    """

    name: str
    plain: Callable[[], Parameters]
    managed: Managed
    rounding: float = 1e-6
    remark: str = ""


def _of_loader(name: str, loading: Loading) -> Script:
    return Script(name, partial(plain, loading), partial(plain_managed, loading))


_FP32 = "accelerate with cpu=True drops mixed_precision='fp16' without a word and trains in float32"
_HALF = "on 2 processes, sums over half of a batch are rounded to 16 bits each"

SCRIPTS = {
    script.name: script
    for script in (
        _of_loader("plain", shuffled),
        _of_loader("plain, shuffled by torch's global generator", partial(shuffled, own_generator=False)),
        Script("gradient accumulation, 4 of 10 batches", accumulation, accumulation_managed),
        Script("fp16, the script's autocast and GradScaler('cpu')", scaled, scaled_kept, 1e-3, _HALF),
        Script("fp16, mixed_precision='fp16'", scaled, partial(mixed_managed, "fp16"), 1e-3, f"{_HALF}; {_FP32}"),
        Script("bf16, mixed_precision='bf16'", autocast, partial(mixed_managed, "bf16"), 1e-2, _HALF),
        Script("clipping", clipping, clipping_managed),
        Script("GAN: two models, two optimizers", gan, gan_managed),
        Script("LBFGS with a closure", lbfgs, lbfgs_managed),
        _of_loader("uneven tail: 70 samples, batch 16", partial(shuffled, 70)),
        _of_loader("odd tail: 69 samples, batch 16", partial(shuffled, 69)),
        _of_loader("subset sampler: 50 of 101 samples, batch 10", subset),
        Script("resume mid-epoch, in order", partial(plain, in_order), Resuming(in_order).stopped),
        Script("resume mid-epoch, shuffled", partial(plain, shuffled), Resuming(shuffled).stopped),
        Script(
            "resume mid-epoch, shuffled / the same library, never stopped",
            nothing,
            Resuming(shuffled, accelerate={"use_seedable_sampler": True}).on_its_own,
            remark="accelerate with use_seedable_sampler=True, which shuffles otherwise than the plain script",
        ),
    )
}
