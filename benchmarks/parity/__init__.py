"""Whether training with the runtime library computes what plain PyTorch computes."""
