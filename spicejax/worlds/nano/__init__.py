"""The nano world and its model of a million parameters."""
