"""Two players without data: one asks, the other is taught what its own votes say."""
