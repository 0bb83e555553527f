"""Tables of few rows about a pipeline, written and read by delta-rs: no Spark is needed.

Each write is one commit. What fails is a ``TableError`` that names the table, unless the object store is
away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from common.errors import TableError
from common.machine.object_store import storage_options, store_failure

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake import DeltaTable

_FILE_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class SmallTable:
    """A table of few rows; it need not exist."""

    path: str  # its path or URI
    properties: Mapping[str, str] = field(default_factory=dict)  # properties that it gets when it is created
    tidy_every: int = 0  # number of commits after which a write also tidies the table; 0: no write does

    def write(
        self,
        rows: pa.Table,
        *,
        mode: Literal["append", "overwrite"] = "append",
        metadata: str | None = None,
    ) -> None:
        """Append rows, or replace all rows; creates the table, and adds columns that it lacks.

        Args:
            mode: ``append`` or ``overwrite``.

        Raises:
            TableError: The table cannot be written.
        """
        from deltalake import CommitProperties, write_deltalake

        told = None if metadata is None else CommitProperties(custom_metadata={"userMetadata": metadata})
        with self._named("written"):
            write_deltalake(
                self.path,
                rows,
                mode=mode,
                schema_mode="merge",
                configuration=self.properties,
                commit_properties=told,
                storage_options=storage_options(self.path),
            )
            if self.tidy_every and (self._open().version() + 1) % self.tidy_every == 0:
                self.tidy()

    def tidy(self, delete: str | None = None) -> None:
        """Compact the files, and delete files and commits that are older than the table's retention.

        Args:
            delete: Rows that meet this SQL condition are deleted first.

        Raises:
            TableError: The table cannot be written, or another process has changed it meanwhile; the next
                call tries again.
        """
        with self._named("written"):
            table = self._open()
            if delete is not None:
                table.delete(delete)
            table.optimize.compact(target_size=_FILE_BYTES)
            table.vacuum(dry_run=False)
            table.create_checkpoint()
            table.cleanup_metadata()

    def read(
        self, columns: Sequence[str] | None = None, where: pc.Expression | None = None
    ) -> pa.Table | None:
        """The rows, in no order; None where there is no table.

        Args:
            columns: Those that are read where the table has them; unset: all.
            where: A condition over the table's columns; unset: all rows.

        Raises:
            TableError: The table cannot be read.
        """
        from deltalake.exceptions import TableNotFoundError

        with self._named("read"):
            try:
                data = self._open().to_pyarrow_dataset()
            except TableNotFoundError:
                return None
            there = None if columns is None else [name for name in columns if name in data.schema.names]
            return data.to_table(columns=there, filter=where)

    def _open(self) -> DeltaTable:
        from deltalake import DeltaTable

        return DeltaTable(self.path, storage_options=storage_options(self.path))

    @contextmanager
    def _named(self, done: str) -> Iterator[None]:
        with told_errors(lambda error: TableError(f"the table {self.path} cannot be {done}: {error}")):
            yield


@contextmanager
def told_errors(told: Callable[[Exception], TableError]) -> Iterator[None]:
    """Raise an error of the engine for what delta-rs and pyarrow raise of a table in the block.

    That is an error of either, or of the system: a file with damaged pages is only an ``OSError``.

    Raises:
        OSError: The object store does not answer, or refuses: nothing is wrong with the table.
        TableError: What ``told`` makes of the error.
    """
    import pyarrow as pa
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, pa.ArrowException, OSError) as error:
        if store_failure(error) is not None:
            raise OSError(str(error)) from error
        raise told(error) from error


def schema_of(row: type, **types: pa.DataType) -> pa.Schema:
    """The columns of a dataclass, in the order of its fields.

    Args:
        row: Fields are text, integers, floats, truth values and UTC times, each of them or None.
        types: Types of fields that are not the usual ones.
    """
    import pyarrow as pa  # its import takes a third of a second

    usual = {
        "str": pa.string(),
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "datetime": pa.timestamp("us", "UTC"),
    }
    return pa.schema(
        [
            (one.name, types.get(one.name) or usual[str(one.type).removesuffix(" | None")])
            for one in fields(row)
        ]
    )


def rows_of(found: Sequence[Any], schema: pa.Schema) -> pa.Table:
    """Instances of a dataclass as rows of a table, with the columns of a schema."""
    import pyarrow as pa

    columns = {name: [getattr(one, name) for one in found] for name in schema.names}
    return pa.table(columns, schema=schema)
