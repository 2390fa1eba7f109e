"""Public benchmarks of asking: their cases, a runner that can be killed, and its trajectories."""
