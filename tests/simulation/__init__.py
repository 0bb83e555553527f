"""A world without Spark: the product's protocols over a disk, logs, a broker and a clock in memory.

Leases, commits, manifests, positions, checkpoints, watches and starts are the product's own code. What they
run on is here: files in a dictionary, partitions in lists, a clock that is a number, and an engine that plans
micro-batches as Spark does and hands them to the product's function. Every step is a choice of one seed, so a
life that ends wrong is lived again by its seed.
"""
