"""The page, the metrics and the health of a pipeline, by HTTP."""
