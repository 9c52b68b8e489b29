"""Programs that a model writes, runs in its head and looks for: self-play that an interpreter judges."""
