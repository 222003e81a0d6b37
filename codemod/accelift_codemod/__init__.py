"""The codemod: reads single-GPU PyTorch scripts, rewrites them for Accelift, never runs them."""
