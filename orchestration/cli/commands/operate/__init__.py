"""The commands that move or change rows."""
