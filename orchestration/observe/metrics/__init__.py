"""The metrics of a pipeline: one list, and the Prometheus text, board, rules and reference made of it."""
