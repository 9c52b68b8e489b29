"""Question sets and probes as numbers."""
