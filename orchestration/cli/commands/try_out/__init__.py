"""The commands with which to try the engine: the demo, and messages for a topic."""
