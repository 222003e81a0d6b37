"""Applies a plan to its source in one pass."""

from accelift_codemod.rewrite.apply import rewrite
from accelift_codemod.rewrite.result import CannotRewrite, Change, Rewritten

__all__ = ["CannotRewrite", "Change", "Rewritten", "rewrite"]
