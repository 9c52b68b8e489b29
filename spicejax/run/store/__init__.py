"""What a run writes: checkpoints and their manifests, metrics, trackers, the record of its configuration, exports."""
