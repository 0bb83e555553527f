"""OpenLineage events of a job: lineage from the declaration, row counts from the micro-batches."""
