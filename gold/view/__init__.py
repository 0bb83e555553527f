"""Gold tables that a SELECT statement defines, kept by the changes of its sources."""
