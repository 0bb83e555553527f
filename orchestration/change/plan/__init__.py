"""What the next start of a pipeline does with its tables, said before the start."""
