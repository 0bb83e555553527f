"""New and changed rows of a table, sent on."""
