"""Every state of a key, and from when to when it held (SCD2)."""
