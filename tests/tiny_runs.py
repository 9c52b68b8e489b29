"""Overrides that make a configuration of the nano world a run of seconds."""

WORLD = {
    "nano.warm_tokens": "100000", "nano.row_length": "128", "nano.rows": "4", "nano.documents": "64",
    "nano.held_out": "16",
    "nano.architecture.d_model": "32", "nano.architecture.num_layers": "2", "nano.architecture.d_ff": "48",
    "nano.architecture.head_dim": "8", "buckets.rows": "16", "learner.rows": "4", "learner.min_micro_batches": "2",
    "checkpoint.every": "1",
}  # fmt: skip
SPICE = WORLD | {
    "spice.documents": "4", "spice.group_size": "4", "spice.max_attempts": "8", "eval.probe_documents": "0",
    "eval.every": "0",
}  # fmt: skip
