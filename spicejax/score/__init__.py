"""Scoring: verifiers, judge, sandbox and rewards turn tasks and rollouts into numbers."""
