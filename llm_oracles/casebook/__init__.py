"""Public benchmarks of asking: their cases, as they were published."""
