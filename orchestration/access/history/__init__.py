"""What jobs record about themselves outside the row path: their state now, and their micro-batches."""
