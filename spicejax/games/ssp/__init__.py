"""Search Self-Play."""
