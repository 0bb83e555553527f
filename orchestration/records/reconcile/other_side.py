"""What a table is compared with: a table of PostgreSQL, a Delta table, or files of Parquet or CSV.

========================================================  =================================================
written                                                   is
========================================================  =================================================
``postgresql://user@host:5432/shop?table=public.orders``  a table or view of PostgreSQL; the password comes
                                                          from ``PGPASSWORD`` or ``~/.pgpass``
``/lake/orders``, ``/lake/orders?version=12``             a Delta table
``export/*.parquet``, ``export/orders.csv.gz``            files on local disks; those of CSV are UTF-8 with
                                                          a header, and values may be in double quotes
========================================================  =================================================
"""

from __future__ import annotations

import csv
import gzip
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from common.config.paths import is_local
from common.delta.log import LogReader
from common.errors import TableError, UsageError, first_line
from common.machine.extras import require
from common.sql.quoting import double_quoted, standard_text
from orchestration.access.query.duckdb_views import Database, extension_file

_FORMS = (
    "postgresql://user@host/database?table=schema.name, the folder of a Delta table, or files that end in "
    ".parquet, .csv or .csv.gz"
)
_OTHER_DATABASES = frozenset(
    {"duckdb", "jdbc", "mariadb", "mongodb", "mssql", "mysql", "oracle", "snowflake", "sqlite", "sqlserver"}
)
_ATTACHED = "other_side"
_CSV = (
    # Text stays text: the types are those of the pipeline's table, and none is guessed.
    "all_varchar = true, union_by_name = true, strict_mode = true, "
    # Not guessed from the first rows, by which later ones would be read wrongly or skipped.
    "quote = '\"', escape = '\"', comment = '', skip = 0, "
    # Nothing between commas is null, an empty text in quotes is one.
    "allow_quoted_nulls = false"
)
_SNIFFING = "Error when sniffing file"
_RENAMED = re.compile(r"(.*)_\d+")
_CSV_ERROR = re.compile(
    r"CSV Error on Line: (\d+)\n(.*?)\nPossible (?:Solution|fixes):?.*?\n  file = (.*?)\n", re.DOTALL
)


@dataclass(frozen=True)
class OtherSide:
    """A table that is not the pipeline's."""

    shown: str  # how messages name it; without a password
    relation: str  # it, in a FROM clause of DuckDB
    connection: str = ""  # what PostgreSQL's client connects with; empty for files
    secret: str = ""  # the password in it, if it has one

    @contextmanager
    def opened(self, database: Database) -> Iterator[None]:
        """One transaction: all that is read of PostgreSQL inside the block is of one snapshot.

        Raises:
            TableError: It cannot be read.
            MissingExtraError: PostgreSQL's extension of DuckDB is not installed.
        """
        import duckdb

        run = database.connection.execute
        try:
            if self.connection:
                run(f"LOAD {standard_text(str(extension_file('postgres_scanner')))}")
                run(f"ATTACH {standard_text(self.connection)} AS {_ATTACHED} (TYPE postgres, READ_ONLY)")
            run("BEGIN TRANSACTION")
        except duckdb.Error as error:
            raise self.failed(error) from error
        try:
            yield
            run("COMMIT")
        finally:
            with suppress(duckdb.Error):  # there is no transaction after a commit
                run("ROLLBACK")
            if self.connection:
                run(f"DETACH {_ATTACHED}")

    def failed(self, error: Exception) -> TableError:
        """The error of a side that cannot be read, without its password."""
        if found := _CSV_ERROR.search(str(error)):
            line, said, file = found.groups()
            reason = said.strip().rpartition("\n")[
                2
            ]  # before it is the line itself, which may hold any payload
            return TableError(f"{file} cannot be read: line {line}: {reason}")
        if _SNIFFING in str(error):
            return TableError(f"{self.shown} cannot be read: {_unended_quote(self.shown)}")
        # The client quotes the address that it was given, with the secrets that its options may have.
        text = re.sub(r"postgres(ql)?://[^\s\"']*", "the database", first_line(error))
        return TableError(
            f"{self.shown} cannot be read: {text.replace(self.secret, '***') if self.secret else text}"
        )


def _unended_quote(given: str) -> str:
    """Where a file of CSV has a value in double quotes that never ends, in words."""
    for file in sorted(Path().glob(given) if not Path(given).is_absolute() else _absolute(given)):
        reading = gzip.open if file.suffix == ".gz" else open
        try:
            with reading(file, "rt", encoding="utf-8", newline="") as lines:
                begin = 1
                reader = csv.reader(lines, strict=True)
                for _ in reader:
                    begin = reader.line_num + 1
        except csv.Error:
            return f"{file}: line {begin}: a value in double quotes that does not end; the file may be cut"
        except (OSError, EOFError, UnicodeDecodeError) as error:
            return f"{file}: {first_line(error)}"
    return "its lines are none of CSV with commas"


def other_side(given: str, database: Database) -> OtherSide:
    """What ``--against`` names.

    Raises:
        UsageError: It is none of the forms above, there is nothing, or two columns have one name.
        TableError: A file of CSV or an object store cannot be read.
        MissingExtraError: PostgreSQL's extension of DuckDB is not installed.
    """
    if urlsplit(given).scheme in {"postgres", "postgresql"}:
        return _postgres(given)
    if (scheme := urlsplit(given).scheme.partition("+")[0].lower()) in _OTHER_DATABASES:
        raise UsageError(
            f"--against {scheme}://…: of databases PostgreSQL alone is read. Have the table written to a "
            f"file of Parquet or CSV, and name that. It is {_FORMS}"
        )
    if given.endswith((".parquet", ".csv", ".csv.gz")):
        return _files(given, database)
    return _delta(given, database)


def _postgres(given: str) -> OtherSide:
    parts = urlsplit(given)
    options = dict(parse_qsl(parts.query))
    table = options.pop("table", "")
    if not re.fullmatch(r"[^.]+(\.[^.]+)?", table):
        raise UsageError(f"--against names no table: write postgresql://…{parts.path}?table=public.orders")
    require("reconcile", "comparisons with PostgreSQL")
    schema, _, name = table.rpartition(".")
    relation = f"{_ATTACHED}.{double_quoted(schema or 'public')}.{double_quoted(name)}"
    host = parts.netloc.rpartition("@")[2]
    return OtherSide(
        f"{parts.scheme}://{host}{parts.path}, table {table}",
        relation,
        urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(options), "")),
        parts.password or "",
    )


def _files(given: str, database: Database) -> OtherSide:
    if not is_local(given):
        raise UsageError(
            f"--against {urlsplit(given).scheme}://…: files are read from local disks only; copy them to "
            "one. In an object store the folder of a Delta table can be read"
        )
    files = list(Path().glob(given) if not Path(given).is_absolute() else _absolute(given))
    if not files:
        raise UsageError(f"--against {given}: there is no such file")
    empty = [str(file) for file in files if not file.stat().st_size]
    if empty and (len(empty) == len(files) or given.endswith(".parquet")):
        raise UsageError(f"--against {given}: {empty[0]} is empty; it has no header")
    if given.endswith(".parquet"):
        return OtherSide(given, f"read_parquet({standard_text(given)}, union_by_name = true)")
    # A part without a row may have no header; rows that are lost with it are missing keys all the same.
    without = f" without {', '.join(empty)}, which {'is' if len(empty) == 1 else 'are'} empty"
    listed = ", ".join(standard_text(str(file)) for file in files if str(file) not in empty)
    side = OtherSide(given + without * bool(empty), f"read_csv([{listed}], header = true, {_CSV})")
    _refuse_repeated_names(side, database)
    return side


def _refuse_repeated_names(side: OtherSide, database: Database) -> None:
    """Refuse a header with a name twice, of which DuckDB would call the second one ``name_1``."""
    import duckdb

    run = database.connection.execute
    try:
        names = [str(row[0]) for row in run(f"DESCRIBE SELECT * FROM {side.relation}").fetchall()]
        known = {name.lower() for name in names}
        renamed = (found[1] for name in names if (found := _RENAMED.fullmatch(name)))
        if not any(name.lower() in known for name in renamed):
            return
        for (file,) in run(f"FROM glob({standard_text(side.shown)})").fetchall():
            first = f"read_csv({standard_text(file)}, header = false, {_CSV})"
            for header in run(f"FROM {first} LIMIT 1").fetchall():
                counts = Counter((name or "").lower() for name in header)
                if twice := [name for name, count in counts.items() if name and count > 1]:
                    raise UsageError(f"{file}: the header has the name {twice[0]} more than once; rename one")
    except duckdb.Error as error:
        raise side.failed(error) from error


def _absolute(given: str) -> Iterator[Path]:
    path = Path(given)
    return Path(path.anchor).glob(str(path.relative_to(path.anchor)))


def _delta(given: str, database: Database) -> OtherSide:
    path, _, query = given.partition("?")
    options: Mapping[str, str] = dict(parse_qsl(query))
    version = options.get("version")
    if set(options) - {"version"} or (version is not None and not version.isdigit()):
        raise UsageError(f"--against {given}: after ? only version=NUMBER can be given for a Delta table")
    try:
        newest = LogReader(path).latest_version()
    except (OSError, ValueError) as error:  # such as a kind of address that no object store has
        raise TableError(f"{path} cannot be read: {first_line(error)}") from error
    if newest is None:
        raise UsageError(f"--against {given}: no Delta table is there. It is {_FORMS}")
    read = newest if version is None else int(version)
    if read > newest:
        raise UsageError(f"--against {given}: its newest version is {newest}")
    return OtherSide(f"{path} (version {read})", database.source(path, read))
