"""Learning: advantages, losses and the training step."""
