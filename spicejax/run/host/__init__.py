"""The machine of a process: its locks, its disk, its time and its screen."""
