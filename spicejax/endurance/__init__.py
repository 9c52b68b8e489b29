"""What a run survives: faults that are made to happen, and the comparison with a run that had none."""
