"""Sampling: the in-graph sampler and the policy that speaks messages."""
