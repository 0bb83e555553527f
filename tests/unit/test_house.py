"""The shape of the source: short functions, small folders, budgeted lines, broad excepts in named places."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.check

ROOT = Path(__file__).parents[2]
PACKAGES = ("common", "bronze", "silver", "gold", "orchestration")

LONGEST_FUNCTION = 60
LONGEST_OF_NINE_IN_TEN = 25
MOST_FILES_IN_A_FOLDER = 15

BUDGET = {
    "bronze": 1052,
    "common": 842,
    "common/config": 2009,
    "common/declare": 4469,
    "common/delta": 5888,
    "common/java": 986,
    "common/machine": 1443,
    "common/rows": 1495,
    "common/schema": 1973,
    "common/spark": 1908,
    "common/sql": 5295,
    "common/streaming": 2655,
    "common/typed": 1919,
    "gold": 6794,
    "java": 11628,
    "orchestration": 33,
    "orchestration/access": 6877,
    "orchestration/author": 9020,
    "orchestration/change": 4536,
    "orchestration/cli": 8439,
    "orchestration/install": 1320,
    "orchestration/observe": 6271,
    "orchestration/quality": 3089,
    "orchestration/records": 13887,
    "orchestration/run": 5658,
    "silver": 4127,
}
"""The most lines of each wing, docstrings and comments included.

A commit that raises a wing lowers another by as much, or says in its message why the product needs the lines.
``python -m tests.unit.test_house`` prints the table as the tree is.
"""

SLACK = 150
"""Lines a wing may lie below its row: what a commit saves is taken out of the table, not kept for later."""

BROAD_EXCEPTS = {
    "common/spark/session.py:_launch": "ends the JVM of an interrupted start, then re-raises",
    "common/streaming/attempt_mark.py:attempt": "marks the micro-batch that failed, then re-raises",
    "common/streaming/query.py:run_micro_batch": "records the error of a micro-batch, then re-raises",
    "orchestration/run/wiring.py:stream": "what a library raises of one table's query is that table's error",
    "orchestration/run/hooks.py:_call_all": "a user's function must not end a job",
    "gold/publish/query.py:hand_over": "passes the error to the sink's close(), then re-raises",
    "orchestration/author/cases/run_case.py:run_case": "a case that cannot end is a failure; the others run",
    "orchestration/author/cases/read/load.py:_of_python": "a user's file may raise anything",
    "orchestration/observe/alerts/watch.py:_delivered": "a channel of apprise may raise anything",
    "orchestration/observe/alerts/watch.py:_guarded": "watching alerts must not end the job",
    "orchestration/observe/catalog/registrar.py:_guarded": "a catalog that fails must not end the job",
    "orchestration/cli/run/run_demo.py:run": "a thread's error is raised by the thread that waits for it",
    "orchestration/cli/run/tried_remedies.py:_told": "a refusal is told also where no remedy can be tried",
    "orchestration/cli/main.py:main": "turns a registry's failure into a message, re-raises everything else",
    "orchestration/install/machine/doctor.py:examine": "a probe that fails must not hide the other findings",
    "orchestration/run/quality_gates.py:_evaluate": "reports the error; the next version is evaluated again",
    "orchestration/run/recorder.py:_guarded": "what is recorded about a job must not end the job",
    "orchestration/run/recorder.py:recording": "records the error that ends the job, then re-raises",
    "orchestration/run/standby/rehearsal.py:_run": "the job's own start decides; the other queries go on",
    "orchestration/run/standby/warming.py:_loop": "a standby that is cold is a standby all the same",
    "orchestration/observe/lineage/sender.py:_run": "an event that cannot be sent is dropped and counted",
    "orchestration/observe/lineage/sender.py:open_client": "a transport may raise anything",
    "common/sql/syntax.py:parse_text": "of a text that is no SQL the library ends in errors of any type",
    "orchestration/access/declaration/load_file.py:load_draft": "a user's file may raise anything",
    "silver/write/poison_search.py:_try": "an error of a process that lives on is no death; re-raises",
}
"""Functions that may catch ``Exception`` or ``BaseException``, each with the reason."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources() -> Iterator[tuple[str, ast.Module]]:
    """Every Python file of the product with its syntax tree."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def lengths() -> dict[str, int]:
    """Lines per function, with its signature and docstring."""
    return {
        f"{file}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for file, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, Function)
    }


def wing(file: Path) -> str:
    """A layer, a folder of ``common`` or ``orchestration`` with all below it, or the Java of the product."""
    if file.suffix == ".java":
        return "java"
    return "/".join(
        file.parts[: 1 if file.parts[0] in {"bronze", "silver", "gold"} else 2][: len(file.parts) - 1]
    )


def wings() -> dict[str, int]:
    """The lines of each wing."""
    found: Counter[str] = Counter()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*"):
            if path.suffix in {".py", ".java"}:
                found[wing(path.relative_to(ROOT))] += len(path.read_bytes().splitlines())
    return dict(sorted(found.items()))


def broad_excepts(node: ast.AST, function: str = "") -> Iterator[str]:
    """Names of the innermost functions around handlers of ``Exception``, ``BaseException`` or everything."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ExceptHandler) and is_broad(child):
            yield function
        yield from broad_excepts(child, child.name if isinstance(child, Function) else function)


def is_broad(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches every exception."""
    if handler.type is None:
        return True
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(one, ast.Name) and one.id in {"Exception", "BaseException"} for one in caught)


def test_no_function_is_too_long() -> None:
    assert {name: lines for name, lines in lengths().items() if lines > LONGEST_FUNCTION} == {}


def test_nine_of_ten_functions_are_short() -> None:
    ordered = sorted(lengths().values())
    assert ordered[len(ordered) * 9 // 10] <= LONGEST_OF_NINE_IN_TEN


def test_no_folder_has_too_many_files() -> None:
    pages = (path.relative_to(ROOT) for folder in ("tests", "docs") for path in (ROOT / folder).rglob("*"))
    read = (page for page in pages if page.suffix in {".py", ".md"})
    files = Counter(str(Path(file).parent) for file in (*(file for file, _ in sources()), *read))
    assert {folder: number for folder, number in files.items() if number > MOST_FILES_IN_A_FOLDER} == {}


def test_no_wing_exceeds_its_budget() -> None:
    lines = wings()
    assert {name: (lines[name], most) for name, most in BUDGET.items() if lines.get(name, 0) > most} == {}
    assert lines.keys() == BUDGET.keys()


def test_the_budget_is_lowered_with_the_lines() -> None:
    lines = wings()
    assert {name: (lines[name], most) for name, most in BUDGET.items() if lines[name] < most - SLACK} == {}


def test_broad_excepts_are_in_the_named_places_only() -> None:
    """A place that no longer has one is deleted from the list."""
    found = {f"{file}:{function}" for file, tree in sources() for function in broad_excepts(tree)}
    assert found == set(BROAD_EXCEPTS)


def test_a_broad_except_is_recognized_in_every_form() -> None:
    source = """
def named():
    try: ...
    except Exception: ...
def first():
    try: ...
    except (OSError, BaseException): ...
def bare():
    def inner():
        try: ...
        except: ...
def narrow():
    try: ...
    except (OSError, ValueError): ...
"""
    assert list(broad_excepts(ast.parse(source))) == ["named", "first", "inner"]


def contract(name: str) -> set[str]:
    """The packages of orchestration that a contract of the import law forbids something."""
    law = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (found,) = (one for one in law["contracts"] if one["name"].startswith(name))
    return {module.removeprefix("orchestration.") for module in found["source_modules"]}


def rooms() -> set[str]:
    """Every package of orchestration that has modules, such as ``records.audit``."""
    files = (path.relative_to(ROOT / "orchestration") for path in (ROOT / "orchestration").rglob("*.py"))
    return {".".join(file.parts[:2][: len(file.parts) - 1]) for file in files if len(file.parts) > 1}


def uncovered(covered: set[str]) -> set[str]:
    """The packages that stand neither in this set nor inside a member of it."""
    return {room for room in rooms() if room not in covered and room.split(".")[0] not in covered}


def test_the_packages_that_know_the_layers_are_those_of_the_page() -> None:
    """A package is forbidden to, or it stands in docs/architecture.md; none is in both, none in neither."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^These packages know the layers, .*$", page, flags=re.MULTILINE)
    named, forbidden = set(re.findall(r"`([\w.]+)`", line)), contract("The layers are known where")
    assert not named & forbidden
    assert {room for room in uncovered(named | forbidden) if "." in room} == set()
    assert named | forbidden <= rooms()


def test_every_package_but_one_is_forbidden_the_client_of_kafka() -> None:
    covered = contract("Within orchestration, only access.kafka")
    assert {room for room in uncovered(covered) if "." in room} == {"access.kafka"}


def test_every_package_of_the_product_is_in_an_exhaustive_contract() -> None:
    """Of orchestration, its wings, and the wings that have packages; run, quality and cli have files."""
    law = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layered = {
        container
        for one in law["contracts"]
        if one["type"] == "layers" and one.get("exhaustive")
        for container in one.get("containers", ())
    }
    wings = {f"orchestration.{room.split('.')[0]}" for room in rooms()}
    assert layered >= {"common", "silver", "gold", "orchestration"} | wings - {
        "orchestration.cli",
        "orchestration.quality",
        "orchestration.run",
    }


TABLE_WRITERS = {
    "common/spark/class_recording.py": "has Spark load its classes, by tables in a folder that is deleted",
    "common/spark/table_catalog.py": "registers tables in a catalog, and writes nothing into them",
}
"""Files outside ``common/delta`` that write a Delta table, each with the reason."""

_WRITERS = {"write_deltalake", "saveAsTable", "insertInto", "toTable", "writeTo"}
_OF_A_TABLE = {"delete", "update", "merge", "alter", "compact", "z_order", "vacuum", "restore"}
_OF_A_TABLE |= {
    "create",
    "createIfNotExists",
    "createOrReplace",
    "replace",
    "executeCompaction",
    "restoreToVersion",
}
_STATEMENT = re.compile(
    r"\s*(MERGE INTO|INSERT (INTO|OVERWRITE)|DELETE FROM|UPDATE .+ SET|ALTER TABLE|OPTIMIZE|VACUUM|RESTORE"
    r"|TRUNCATE TABLE|DROP TABLE|CREATE (OR REPLACE )?TABLE)\b",
    re.IGNORECASE,
)


def table_writes(tree: ast.AST) -> Iterator[int]:
    """Lines that write a Delta table: by delta-rs, Spark's writer, a ``DeltaTable`` or a statement."""
    tables = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and "DeltaTable" in names(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    } | {"DeltaTable"}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        called, given = names(call.func), [text for one in call.args for text in texts(one)]
        function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if (
            function in _WRITERS
            or (function == "format" and called & {"write", "writeStream"} and "delta" in given)
            or (function in _OF_A_TABLE and called & tables)
            or (function == "execute" and called & {"merge", *tables})
            or (function == "sql" and any(_STATEMENT.match(text) for text in given))
        ):
            yield call.lineno


def names(node: ast.AST) -> set[str]:
    """The variables and attributes of an expression."""
    found = [one for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute)]
    return {one.id if isinstance(one, ast.Name) else one.attr for one in found}


def texts(node: ast.AST) -> list[str]:
    """The texts of an expression, with the fixed parts of f-strings."""
    return [
        one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]


def test_tables_are_written_by_one_package_and_the_named_files_only() -> None:
    """A file that writes no table any more is deleted from the list."""
    found = {file for file, tree in sources() if any(table_writes(tree))}
    assert {file for file in found if not file.startswith("common/delta/")} == set(TABLE_WRITERS)


def test_a_write_of_a_table_is_recognized_in_every_form() -> None:
    source = """
write_deltalake(path, rows)
deltalake.write_deltalake(path, rows)
frame.write.mode("append").format("delta").save(path)
writer = frame.write.format("delta").mode("overwrite")
frame.write.saveAsTable("t")
frame.writeTo("t").append()
frame.writeStream.format("delta").start(path)
table = DeltaTable.forPath(spark, path)
table.alias("t").merge(rows, "t.n = s.n").whenMatchedUpdateAll().execute()
table.delete("n = 1")
DeltaTable(path).optimize.compact()
DeltaTable.createIfNotExists(spark).execute()
opened().merge(rows, "true").execute()
spark.sql(f"DELETE FROM {name} WHERE n = 1")
spark.sql("optimize t")

spark.read.format("delta").load(path)
spark.readStream.format("delta").load(path)
frame.write.format("kafka").save()
frame.write.format("noop").mode("overwrite").save()
database.execute("SELECT 1")
DeltaTable(path).to_pyarrow_dataset()
found.update(rows)
spark.sql("SELECT 'x' AS t")
"""
    lines = source.splitlines()
    of_a_table = [line for line in lines[1 : lines.index("", 1)] if not line.startswith("table = ")]
    assert [lines[number - 1] for number in sorted(set(table_writes(ast.parse(source))))] == of_a_table


if __name__ == "__main__":
    print(  # noqa: T201  # what the command is for
        "\n".join(f'    "{name}": {lines},' for name, lines in wings().items())
    )
