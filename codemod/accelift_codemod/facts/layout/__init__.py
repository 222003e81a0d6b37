"""How values depend on the batch: sample-first tensors, means and sums over samples, counts."""

from accelift_codemod.facts.layout.algebra import Environment, Layout, Shape
from accelift_codemod.facts.layout.collated import Collated
from accelift_codemod.facts.layout.interpreter import Layouts
from accelift_codemod.facts.layout.picked import METHODS, Picked

__all__ = ["METHODS", "Collated", "Environment", "Layout", "Layouts", "Picked", "Shape"]
