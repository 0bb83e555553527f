"""Makes the tables and checkpoints of a pipeline right again from what is left of them."""
