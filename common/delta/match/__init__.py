"""What the commits of a table, its side tables and the checkpoint of its query must agree on."""
