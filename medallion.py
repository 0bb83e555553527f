"""The public names of a pipeline file and its tests: ``from medallion import Pipeline, Topic, …``.

Beside them: ``main``, the command line, also as ``python -m medallion``; ``build_dag`` and
``MedallionOperator``, for Airflow. Each is loaded at its first use: in a wheel every module of the engine is
in this package, and pytest loads one of them, its plugin, in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from common.declare import (
        Aggregate,
        Avro,
        BatchSink,
        Bronze,
        Bytes,
        ChangeFeed,
        Columns,
        ConsoleSink,
        Csv,
        Custom,
        Debezium,
        DeltaTable,
        Expect,
        Files,
        FileSink,
        ForeachSink,
        Freshness,
        Gold,
        History,
        Hook,
        InRange,
        InSet,
        Join,
        Json,
        KafkaSink,
        Lookup,
        Matches,
        Meets,
        MemorySink,
        Message,
        NullShare,
        Pipeline,
        Protobuf,
        Publish,
        Quality,
        Reading,
        References,
        RowCount,
        Rule,
        SameAs,
        SameDistribution,
        Session,
        Silver,
        Stateful,
        Storage,
        Stream,
        SumsEqual,
        Table,
        Text,
        Topic,
        Unique,
        Upsert,
        Value,
        ValueShare,
        View,
        Window,
        Within,
        gx,
    )
    from orchestration.__main__ import main as main
    from orchestration.author.cases.read.load import case
    from orchestration.install.airflow import MedallionOperator as MedallionOperator
    from orchestration.install.airflow import build_dag as build_dag

__all__ = [
    "Aggregate",
    "Avro",
    "BatchSink",
    "Bronze",
    "Bytes",
    "ChangeFeed",
    "Columns",
    "ConsoleSink",
    "Csv",
    "Custom",
    "Debezium",
    "DeltaTable",
    "Expect",
    "FileSink",
    "Files",
    "ForeachSink",
    "Freshness",
    "Gold",
    "History",
    "Hook",
    "InRange",
    "InSet",
    "Join",
    "Json",
    "KafkaSink",
    "Lookup",
    "Matches",
    "Meets",
    "MemorySink",
    "Message",
    "NullShare",
    "Pipeline",
    "Protobuf",
    "Publish",
    "Quality",
    "Reading",
    "References",
    "RowCount",
    "Rule",
    "SameAs",
    "SameDistribution",
    "Session",
    "Silver",
    "Stateful",
    "Storage",
    "Stream",
    "SumsEqual",
    "Table",
    "Text",
    "Topic",
    "Unique",
    "Upsert",
    "Value",
    "ValueShare",
    "View",
    "Window",
    "Within",
    "case",
    "gx",
]


def __getattr__(name: str) -> object:
    """A public name, at its first use.

    Raises:
        AttributeError: There is no such name.
    """
    found: object
    if name == "main":
        from orchestration.__main__ import main as found
    elif name == "case":
        from orchestration.author.cases.read.load import case as found
    elif name in {"build_dag", "MedallionOperator"}:
        from orchestration.install import airflow

        found = getattr(airflow, name)
    elif name in __all__:
        from common import declare

        found = getattr(declare, name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names too that have not been loaded yet, for completion and ``help``."""
    return sorted({*globals(), *__all__, "MedallionOperator", "build_dag", "main"})


if __name__ == "__main__":
    from orchestration.__main__ import main

    main()
