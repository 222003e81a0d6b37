"""How values depend on the batch: sample-first tensors, means and sums over samples, counts."""

from accelift_codemod.facts.layout.algebra import Environment, Layout, Shape
from accelift_codemod.facts.layout.interpreter import Layouts

__all__ = ["Environment", "Layout", "Layouts", "Shape"]
