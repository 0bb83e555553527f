"""The public names of a pipeline file and its tests: ``from medallion import Pipeline, Topic, …``.

``python -m medallion`` runs the command line.
"""

from common.declare import (
    Aggregate,
    Avro,
    Bytes,
    ChangeFeed,
    ConsoleSink,
    Csv,
    Custom,
    Debezium,
    Expect,
    ForeachSink,
    Gold,
    History,
    Hook,
    Join,
    Json,
    KafkaSink,
    Lookup,
    Message,
    Pipeline,
    Publish,
    Quality,
    Reading,
    Rule,
    Session,
    Silver,
    Storage,
    Table,
    Text,
    Topic,
    Upsert,
    Value,
    Window,
    Within,
)
from orchestration.cases.read.load import case

__all__ = [
    "Aggregate",
    "Avro",
    "Bytes",
    "ChangeFeed",
    "ConsoleSink",
    "Csv",
    "Custom",
    "Debezium",
    "Expect",
    "ForeachSink",
    "Gold",
    "History",
    "Hook",
    "Join",
    "Json",
    "KafkaSink",
    "Lookup",
    "Message",
    "Pipeline",
    "Publish",
    "Quality",
    "Reading",
    "Rule",
    "Session",
    "Silver",
    "Storage",
    "Table",
    "Text",
    "Topic",
    "Upsert",
    "Value",
    "Window",
    "Within",
    "case",
]

if __name__ == "__main__":
    from orchestration.__main__ import main

    main()
