"""Fills a silver table again beside the live one, compares both, and puts the new rows in its place."""
