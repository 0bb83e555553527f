"""Registers tables by name in a catalog of Spark, off the write path."""
