"""Words of Spark and Delta that a declaration does not take: why, or under which name.

Who knows Spark's guide writes its words first. Each that a pipeline cannot say is a mistake with the reason
and the way out; each that has another name here is a mistake with that name. All of them are in
``docs/author/streaming-guide.md``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_ORDER = "records are counted in the order in which files were found, so a start has no say in it"
_CHANGES = 'it is changes="{}" here'
_OWN_PLACE = (
    "tables and checkpoints are below warehouse and checkpoints, where every command finds both: set those "
    "two, or read the table by its path from elsewhere"
)
_OUTPUT_MODE = "the kind of a gold table says it: Aggregate(mode=…), Upsert, Join, View"
_WATERMARKS = (
    "each query has one watermark per source and the lowest counts; max would drop rows of the slower one "
    "without a word"
)
_NAMED = "a query has the name of its table, as medallion status shows it"
_CHECKPOINTED = {**dict.fromkeys(("checkpoint", "checkpoint_location"), _OWN_PLACE), "query_name": _NAMED}
_LEFT_OUT = "an old file would be left out without a count: only=… names files"
_SET_ASIDE = "a record that cannot be read is a row of quarantine, with its bytes and the reason"
_COLUMNS_ADDED = 'columns that are declared later are added; unknown_fields="evolve" adds those of new fields'
_ENDS = "a stream has no end: medallion backfill --to reads up to offsets or a time"
_WAITS_FOR_NO_NUMBER = "a micro-batch waits for no number of records: trigger=… is its least distance"
_GROUP = 'the engine names a group for each table; kafka={"group.id": "…"} sets one of your own'
_PLACES = dict.fromkeys(("path", "location", "checkpoint", "checkpoint_location"), _OWN_PLACE)
_OF_A_TABLE = {
    "ignore_deletes": 'within a pipeline it would stop at the first update: changes="appends" skips both, '
    'changes="feed" has each change once',
    "ignore_changes": 'it sends rows of rewritten files again: changes="feed" has each change once',
    "skip_change_commits": _CHANGES.format("appends"),
    "read_change_feed": _CHANGES.format("feed"),
    "fail_on_data_loss": "commits that are gone stop the query by name, whatever Delta's option says: "
    "restore the log, or go on by the command that the error names",
    "exclude_regex": "rows would be left out without a count: a rule or where in silver counts them",
    "with_event_time_order": "silver's first load is in the order of arrival, or by event time where old "
    "commits are gone",
    "schema_tracking_location": "new columns are read on; medallion plan says what another change needs",
}

_FORMAT = (
    'it is {0}=Avro("order.avsc", framing="registry") here, or Protobuf(…); without a value the row is JSON'
)

_ATTRIBUTES: Mapping[str, Mapping[str, str]] = {
    "Topic": {
        "subscribe": "it is topics=[…] here",
        "subscribe_pattern": "it is pattern=… here",
        "max_files_per_trigger": "a topic has offsets: max_offsets_per_trigger",
        "starting_offsets_by_timestamp": "it is starting_timestamp=… here",
        "starting_offsets_by_timestamp_strategy": "a partition without a record that young begins with what "
        "comes next",
        **dict.fromkeys(("ending_offsets", "ending_timestamp", "ending_offsets_by_timestamp"), _ENDS),
        **dict.fromkeys(("min_offsets_per_trigger", "max_trigger_delay"), _WAITS_FOR_NO_NUMBER),
        **dict.fromkeys(("group_id", "group_id_prefix"), _GROUP),
        "include_headers": "bronze keeps the headers of each record",
        "max_records_per_partition": "it is min_partitions=… here: how many parts a micro-batch has at least",
        **_CHECKPOINTED,
    },
    "Stream": {**_CHECKPOINTED, "path": 'a path is one of its options: options={"path": "…"}'},
    "Files": {
        "latest_first": f"{_ORDER}; a gold table that needs the newest event first has newest_by",
        "max_file_age": f"{_ORDER}, and {_LEFT_OUT}",
        **dict.fromkeys(("modified_after", "modified_before"), _LEFT_OUT),
        **dict.fromkeys(
            ("clean_source", "source_archive_dir"),
            "files are only read: move or delete one when medallion files list says that it is read",
        ),
        **dict.fromkeys(
            ("ignore_corrupt_files", "ignore_missing_files"),
            "a file that cannot be read is set aside by name, and medallion files skip gives one up",
        ),
        **dict.fromkeys(("mode", "column_name_of_corrupt_record"), _SET_ASIDE),
        **dict.fromkeys(("sep", "delimiter"), 'silver says it: value=Csv(…, separator=";")'),
        **dict.fromkeys(
            ("multi_line", "wholetext", "line_sep"),
            "a record is one line, and ends with \\n or "
            '\\r\\n; quoted fields of format="csv" may have line breaks',
        ),
        **dict.fromkeys(("encoding", "charset"), "lines are UTF-8; convert the file, or silver rejects it"),
        "infer_schema": "medallion init proposes a schema, once",
        "max_bytes_per_trigger": "files are read in parts, by their records: max_rows_per_trigger",
        "file_name_only": "a file is known by its whole path: one that moved within the folder is another",
        "path_glob_filter": "it is only=… here",
        "recursive_file_lookup": "all folders below path are read; only=… names files",
        "max_files_per_trigger": "files are read in parts, by their records: max_rows_per_trigger",
        "schema": "bronze keeps a record as it stands; silver's value says its schema",
        **_CHECKPOINTED,
    },
    "DeltaTable": _OF_A_TABLE
    | {
        "ignore_deletes": _CHANGES.format("ignore_deletes"),
        "ignore_changes": _CHANGES.format("ignore_changes"),
        "table": "a name belongs to a catalog: give the table's folder as path, as DESCRIBE DETAIL says it",
        **dict.fromkeys(
            ("version_as_of", "timestamp_as_of"),
            "a stream goes on from a version: starting_version=…; medallion query reads a table as it was",
        ),
        **_CHECKPOINTED,
    },
    "FileSink": {
        "partition_by": "each micro-batch is a folder, batch=<number>; a BatchSink writes any other layout",
        "mode": "each micro-batch is a folder of its own, which a replay writes anew",
    },
    "ConsoleSink": {"num_rows": "it is rows=… here"},
    "Reading": _OF_A_TABLE,
    "Storage": _PLACES,
    "Silver": _PLACES
    | {
        "output_mode": "silver appends: each record once",
        "merge_schema": _COLUMNS_ADDED,
        "overwrite_schema": "medallion rebuild fills a table again, with the columns that are declared now",
        "query_name": _NAMED,
    },
    "KafkaSink": {
        "include_headers": "it is headers=… here",
        **dict.fromkeys(("format", "value_format", "value_serializer"), _FORMAT.format("value")),
        **dict.fromkeys(("key_format", "key_serializer"), _FORMAT.format("key")),
        **dict.fromkeys(("schema_registry_url",), "it is the setting silver.schema_registry"),
        **dict.fromkeys(("auto_register_schemas",), "it is register_schemas=True here"),
        "exactly_once": "Spark's Kafka sink writes without transactions, so a replayed micro-batch is sent "
        "again: a BatchSink with a transactional producer sends each message once",
        "transactional_id": "Spark's Kafka sink writes without transactions: a BatchSink with a producer of "
        "your own has them",
    },
    "Publish": {
        "output_mode": "changes are sent as they come; with deletes=True also rows that are gone",
        **_CHECKPOINTED,
    },
    "Pipeline": {"multiple_watermark_policy": _WATERMARKS, "output_mode": _OUTPUT_MODE},
    **dict.fromkeys(
        ("Aggregate", "Upsert", "Join", "History", "View", "Stateful", "Custom", "ChangeFeed"),
        _PLACES | {"output_mode": _OUTPUT_MODE, "multiple_watermark_policy": _WATERMARKS},
    ),
}

_JOINED = 'a View has it: sql="select … from silver.a {} join gold.b on …"'

_VALUES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("Join", "how"): {
        **dict.fromkeys(("right", "right_outer", "rightouter"), _JOINED.format("right")),
        **dict.fromkeys(("full", "outer", "full_outer", "fullouter"), _JOINED.format("full")),
        **dict.fromkeys(("anti", "left_anti", "leftanti"), _JOINED.format("left anti")),
        **dict.fromkeys(("left_outer", "leftouter"), 'it is how="left" here'),
        **dict.fromkeys(("left_semi", "leftsemi"), 'it is how="semi" here'),
    },
    ("Files", "format"): {
        "orc": "there is no strict reader of ORC: write the files as Parquet",
        "text": 'format="jsonl" keeps a line as it stands, for Text in silver',
        "json": 'format="jsonl" reads a document per line, for Json in silver',
        "xml": "there is no strict reader of XML: write the documents as JSON lines",
        "delta": "DeltaTable reads a Delta table",
    },
    ("FileSink", "format"): {
        "json": 'format="jsonl" writes a document per line',
        "orc": 'format="parquet" has the same types; a BatchSink writes any other format of Spark',
        "text": 'format="csv" with one column and header=False writes lines',
        "delta": "a gold table is a Delta table; a BatchSink writes one elsewhere",
    },
}

_NAMES: Mapping[str, str] = {
    "Xml": "there is no strict reader of XML: Text() keeps the document, and xpath_string in columns takes "
    "values of it",
    "Orc": _VALUES["Files", "format"]["orc"],
}


def _snake(word: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).lower()


def attribute_hint(kind: str, name: str) -> str:
    """What to write for an attribute that a declaration does not have; empty for a word that is not known.

    Args:
        kind: The name of the declaration's class.
        name: The attribute as it was given, in Spark's spelling or in Python's.
    """
    return _ATTRIBUTES.get(kind, {}).get(_snake(name), "")


def value_hint(kind: str, name: str, value: object) -> str:
    """What to write for a value that an attribute does not take; empty for one that is not known."""
    known = _VALUES.get((kind, name), {})
    return known.get(value.strip().lower(), "") if isinstance(value, str) else ""


def class_hint(name: str) -> str:
    """What to write for a class that there is not; empty for one that is not known."""
    return next((hint for known, hint in _NAMES.items() if known.lower() == name.lower()), "")
