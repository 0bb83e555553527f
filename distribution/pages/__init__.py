"""Writes the pages of docs/ about settings, commands, declarations, errors, JSON."""
