"""Rooms put together: the loop, its evaluation, checkpoints, metrics and report."""
