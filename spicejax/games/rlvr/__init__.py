"""Reinforcement learning on questions with known answers."""
