"""``medallion backfill``: what it reads, where a first load begins, how fast it may read, and former runs."""
