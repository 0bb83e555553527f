"""The commands with which a pipeline is written: propose it, check it."""
