"""How large the dimensions of tensors, arrays and tables surely are: whether two of them are broadcast."""

from accelift_codemod.facts.extents.expressions import Extents
from accelift_codemod.facts.extents.sizes import Extent

__all__ = ["Extent", "Extents"]
