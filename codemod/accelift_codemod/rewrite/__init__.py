"""Applies a plan to its source in one pass."""

from accelift_codemod.rewrite.apply import CannotRewrite, Change, Rewritten, rewrite

__all__ = ["CannotRewrite", "Change", "Rewritten", "rewrite"]
