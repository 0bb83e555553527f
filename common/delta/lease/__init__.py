"""One writer per table: leases on the local disk, and beside tables on an S3 store for several hosts."""
