"""The documents that commands print with --json, a module per part of the commands."""
