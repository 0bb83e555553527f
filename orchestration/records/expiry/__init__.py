"""Retention of bronze: deletes whole data files whose records are older than ``Topic.keep``."""
