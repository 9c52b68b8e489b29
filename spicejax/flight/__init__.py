"""What a run would cost: its programs, the chips, the plan, the check by the compiler."""
