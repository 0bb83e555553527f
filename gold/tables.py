"""What all gold tables have in common."""

from __future__ import annotations

PROPERTIES = {
    # What any reader of Delta can read; a table leaves this only by name.
    "delta.minReaderVersion": "1",
    "delta.minWriterVersion": "2",
    "delta.enableDeletionVectors": "false",
    "delta.checkpointInterval": "50",
    "delta.logRetentionDuration": "interval 30 days",
    "delta.deletedFileRetentionDuration": "interval 7 days",
}
