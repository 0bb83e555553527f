"""``docs/install/settings.md``: every setting, its default and its meaning, from the settings themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from common.config.settings import Settings
from common.spark import session_conf
from common.spark.session_conf import Conf, OfRun, Value

_SPARK = """
## Spark's own settings

With `spark.master` `local…` the value behind `=` counts; on a cluster, any other master (`local-cluster[…]`
too), the one behind *cluster*, if there is one.

Your own value wins over the engine's: `spark.conf.<name>` of the settings above, and over that
`--conf <name>=…` of `spark-submit`. Five things it does not replace:

- those of the last list;
- the mark of a commit (`spark.databricks.delta.commitInfo.userMetadata`), which each write sets for itself;
- transaction ids (`spark.databricks.delta.write.txnAppId`, `…txnVersion`), which are taken out before each
  micro-batch: one that was left in the session would have Delta skip a write;
- `partitionOverwriteMode`: what replaces a table replaces all of it;
- micro-batches without rows (`spark.sql.streaming.noDataMicroBatches.enabled`) of queries that close
  windows or waiting rows by them, which always have them.
"""

_STATE = """
## State partitions

A query that keeps state (silver, unless `dedupe="exact"`; `Aggregate` in Spark's modes; `Join` with
`mode="stream"`) keeps it in as many partitions as `spark.shuffle_partitions` says **when it is first
started**; `medallion rebuild` begins anew, with another number. No more cores than partitions work on the
state. On one machine: 2, the default, up to the number of cores. On a cluster: one to two for each core that
the executors will have when there is most to do.
"""

_PLACES = """
## A table at a place of its own

`Silver("orders", …, storage=Storage(location="s3a://lake/shop/orders"))`: its quarantine and late rows are
beside it (`orders__quarantine`), and an environment's prefix is put before the name (`dev_orders`). A
location is in the kind of store that `warehouse` is in, local or `s3a://`. Two pipelines that name one folder
exclude each other.

To move a table: change its location, and `medallion plan` says from where to where its folders are copied,
with all files, while no job runs. A start without the copy is refused. Delete the former folders when the job
has gone on. Checkpoints are moved like that too: without its checkpoint a start of bronze or silver is
refused, and gold fills its table again.
"""


def reference() -> str:
    """Every setting with its default and meaning, as the Markdown of ``docs/install/settings.md``."""
    lines = [
        "# Settings",
        "",
        (
            "Defaults < `medallion.yaml` < `medallion.<env>.yaml` < variables < flags. A key that does not "
            "exist is an error."
        ),
        "`bronze.trigger` is `bronze: {trigger: …}` in the file, `MEDALLION_BRONZE__TRIGGER` in the",
        "environment, and `--set bronze.trigger='5 seconds'` on the command line.",
        "",
        "Written by `python -m distribution.pages.settings_reference > docs/install/settings.md`.",
        "",
        *_reference_rows(Settings),
        _SPARK,
        *_spark_table("A result or a guarantee rests on these", session_conf.RELIED_ON),
        *_spark_table("The engine's settings in Spark's words", session_conf.CHOSEN),
        *_spark_table("Only what it costs", session_conf.COSTS),
        *_spark_table("Not replaced", session_conf.OURS)[:-1],
        _STATE.rstrip("\n"),
        _PLACES.rstrip("\n"),
    ]
    return "\n".join(lines) + "\n"


def _reference_rows(
    model: type[BaseModel], prefix: str = "", told: dict[str, str] | None = None
) -> Iterator[str]:
    """An item per setting; a text that another setting has already is a word on that setting."""
    told = {} if told is None else told
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _reference_rows(kind, f"{prefix}{name}.", told)
            continue
        default = field.get_default(call_default_factory=True, validated_data={})
        shown = "" if default is None else f" = `{default if default != '' else 'asap'}`"
        text = field.description or ""
        first = told.setdefault(text, f"{prefix}{name}")
        text = text if first == f"{prefix}{name}" else f"As `{first}`."
        yield f"- `{prefix}{name}`{shown}: {text.replace('<', '&lt;')}"


def _spark_table(title: str, settings: Sequence[Conf]) -> list[str]:
    before = ["", *(one.why for one in settings)]
    items = [
        f"- `{one.key}` = {_values(one)}: {'As above.' if one.why == above else one.why}"
        for one, above in zip(settings, before, strict=False)
    ]
    return [f"### {title}", "", *items, ""]


def _values(one: Conf) -> str:
    """The value, and that of a cluster where it is another one."""
    small, cluster = _shown(one.small), _shown(one.cluster)
    return small if small == cluster else f"{small}, *cluster* {cluster}"


def _shown(value: Value) -> str:
    if value is None:
        return "Spark's"
    return value.shown if isinstance(value, OfRun) else f"`{value}`"


if __name__ == "__main__":
    print(reference(), end="")  # noqa: T201  # a generator of documentation prints it
