"""What loops measure of their batches: where it is gathered, what becomes of it, whether it steers the training."""
