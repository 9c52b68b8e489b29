"""A run from its configuration to its summary: what is checked before, the loop, chains, evaluations, responses."""
