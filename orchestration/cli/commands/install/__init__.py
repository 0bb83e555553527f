"""The commands that prepare a machine and say what it lacks."""
