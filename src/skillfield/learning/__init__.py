"""Learning: networks, PPO, checkpoints, and the training loop. Knows nothing of the task."""
