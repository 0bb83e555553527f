"""PySpark's private handles on the JVM: the only module that uses them.

PySpark has no public function for what is here: expressions of Java methods, a query's plan, Hadoop's file
systems, the JVM's process. Its handles (``_jvm``, ``_jdf``, ``_jc``, …) may change with every release; with
all of them in one module, a new release is checked in one place. A test searches the other modules for them.
"""

from __future__ import annotations

import signal
import subprocess
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import DataType

# ruff: noqa: SLF001

_DEEPEST_CAUSE = 30
"""Most errors of a chain of causes that are read; a chain may be a circle."""


def packages() -> Any:
    """The root of the JVM's packages: ``packages().java.lang.System``. Needs a Spark session."""
    from pyspark import SparkContext

    return SparkContext._jvm


def output_file(folder: Path, app: str) -> Path:
    """The file with what the JVM of a session prints."""
    return folder / f"{app}.jvm.log"


def is_launched() -> bool:
    """Whether this process has launched a JVM for Spark."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def connect(gateway: Any = None) -> None:
    """Have PySpark use a JVM: the one of this py4j gateway, or the one it launches by itself."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized(gateway=gateway)
    _look_up_once()


def _look_up_once() -> None:
    """Have py4j ask the JVM once for each class, package and static method.

    py4j asks at each access, PySpark accesses a class and a method for each function of a column, and the JVM
    searches all jars for a class that has the name of a package: a tenth of the CPU of small micro-batches. A
    name with a capital that is no class yet is asked for again: its class may come with a jar.
    """
    from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView

    def remembering(look_up: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        @wraps(look_up)
        def get(owner: Any, name: str) -> Any:
            found = look_up(owner, name)
            is_package = isinstance(found, JavaPackage) and name.rpartition(".")[2][:1].islower()
            if is_package or isinstance(found, JavaClass | JavaMember):
                owner.__dict__[name] = found
            return found

        return get

    for kind in (JVMView, JavaPackage, JavaClass):
        if not hasattr(kind.__getattr__, "__wrapped__"):
            kind.__getattr__ = remembering(kind.__getattr__)


@contextmanager
def ignoring_stop_signals() -> Iterator[None]:
    """Within the block PySpark launches a JVM that ignores SIGINT, SIGTERM and SIGHUP.

    A terminal sends these signals to the process group, a service manager to all processes of a service. The
    JVM's own handlers would stop Spark inside a micro-batch; the Python process, which gets the same signal,
    stops each query at the end of its micro-batch. A JVM leaves a signal alone that is ignored when the JVM
    starts. The JVM still ends with its parent, however the parent ends: it reads the pipe to its parent, and
    exits at the end of the pipe. SIGKILL ends the JVM at once.
    """
    from pyspark import java_gateway

    popen: Any = java_gateway.Popen  # type: ignore[attr-defined]

    def launch(command: list[str], **options: Any) -> Any:
        return popen(command, **options | {"preexec_fn": _ignore_stop_signals})

    java_gateway.Popen = launch  # type: ignore[assignment, attr-defined]
    try:
        yield
    finally:
        java_gateway.Popen = popen  # type: ignore[attr-defined]


@contextmanager
def own_interrupt() -> Iterator[list[Any]]:
    """Within the block a context that PySpark makes leaves SIGINT as it is.

    PySpark's handler would be there before the session is: it calls the JVM, whose answer the interrupted
    call still waits for, so that it fails, and hides that the command was interrupted.

    Yields:
        The handlers that PySpark wanted to set: one per new context, in the main thread.
    """
    from pyspark.core import context

    module, wanted = context.signal, list[Any]()  # type: ignore[attr-defined]
    context.signal = SimpleNamespace(  # type: ignore[assignment, attr-defined]
        SIGINT=signal.SIGINT, signal=lambda number, handler: wanted.append(handler)
    )
    try:
        yield wanted
    finally:
        context.signal = module  # type: ignore[attr-defined]


def _ignore_stop_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def name_user(name: str) -> None:
    """Give Hadoop the name of the JVM's user, for which it would ask the operating system."""
    login = packages().org.apache.hadoop.security.UserGroupInformation
    login.setLoginUser(login.createRemoteUser(name))


def throwables(error: BaseException) -> Iterator[tuple[tuple[str, ...], str]]:
    """The errors of the JVM behind an exception of PySpark or py4j, outermost first.

    Yields, for each error of the chain of causes, the full names of its class and superclasses, and its
    message. Yields nothing for an exception that has no error of the JVM.
    """
    throwable = _throwable(error)
    if throwable is not None:
        yield from _causes(throwable)


def _throwable(error: BaseException) -> Any:
    """The outermost error of the JVM behind an exception; None where there is none."""
    found: Any = error
    for _ in range(_DEEPEST_CAUSE):
        throwable = getattr(found, "java_exception", None) or getattr(found, "_origin", None)
        if throwable is not None:
            return throwable
        # Delta's exceptions, for one, come without the JVM's error, and with its cause.
        found = getattr(found, "_cause", None) or found.__cause__
        if found is None:
            return None
    return None


def failed_sql(error: BaseException) -> tuple[str, int, str] | None:
    """The SQL text that an error of Spark is about, where in it the part is that fails, and the part.

    The place counts characters from 0. ``None`` for an error that names no part of a text.
    """
    throwable = _throwable(error)
    found = None
    for _ in range(_DEEPEST_CAUSE):
        if throwable is None:
            break
        for context in _query_contexts(throwable):
            if str(context.contextType()) == "SQL" and context.fragment():
                found = str(context.sqlText().get()), int(context.startIndex()), str(context.fragment())
        throwable = throwable.getCause()
    return found


def _query_contexts(throwable: Any) -> Iterator[Any]:
    from py4j.java_gateway import is_instance_of
    from pyspark import SparkContext

    if is_instance_of(SparkContext._gateway, throwable, "org.apache.spark.SparkThrowable"):
        yield from throwable.getQueryContext()


def stack_trace(error: BaseException) -> str:
    """The JVM's stack traces of an exception of PySpark and its causes; empty for any other exception."""
    found: Any = error
    traces: list[str] = []
    while found is not None and len(traces) < _DEEPEST_CAUSE:
        traces.append(str(getattr(found, "_stackTrace", None) or ""))
        found = getattr(found, "_cause", None)
    return "\n".join(traces)


def _causes(throwable: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    for _ in range(_DEEPEST_CAUSE):
        kind, names = throwable.getClass(), []
        while kind is not None:
            names.append(str(kind.getName()))
            kind = kind.getSuperclass()
        yield tuple(names), str(throwable.getMessage() or "")
        throwable = throwable.getCause()
        if throwable is None:
            return


def process(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    """The JVM's process; None where something else has started it, such as ``spark-submit``."""
    return getattr(spark.sparkContext._gateway, "proc", None)


def answers() -> bool:
    """Whether the JVM still answers a call."""
    from py4j.protocol import Py4JError

    try:
        packages().java.lang.System.nanoTime()
    except (Py4JError, OSError, EOFError):
        return False
    return True


def has_executor(spark: SparkSession) -> bool:
    """Whether an executor has registered beside the driver."""
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) > 1


def stop(spark: SparkSession) -> None:
    """Stop Spark. A JVM that has ended, or ends meanwhile as an interrupt ends it, is left as it is."""
    if (child := process(spark)) is not None and child.poll() is not None:
        return  # calling it would raise a connection error, which hides the real cause
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # pyspark's words for a JVM that ends meanwhile
        spark.stop()


def shut_down(spark: SparkSession, *, timeout_seconds: float) -> None:
    """Stop Spark, and wait until the process of its JVM has ended.

    Raises:
        subprocess.TimeoutExpired: The process still runs after the timeout.
    """
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout_seconds)


def static_method(java_class: str, method: str, result: DataType, *arguments: Column) -> Column:
    """A static Java method as an expression; null where an argument is null.

    The method takes and returns Spark's internal values, so nothing is converted. The expression is declared
    non-deterministic although it is not: Spark then neither repeats it for each of its fields that is used,
    nor moves a filter on them below it, and the method runs once per row.
    """
    from pyspark.sql import Column as PySparkColumn

    jvm = packages()
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    expression = jvm.org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke(
        jvm.org.apache.spark.util.Utils.classForName(java_class, True, False),
        jvm.org.apache.spark.sql.types.DataType.fromJson(result.json()),
        method,
        jvm.PythonUtils.toSeq([utils.expression(each._jc) for each in arguments]),
        jvm.PythonUtils.toSeq([]),
        True,  # propagateNull
        True,  # returnNullable
        False,  # isDeterministic
        getattr(jvm.scala, "None$").__getattr__("MODULE$"),
    )
    return PySparkColumn(utils.column(expression))


def try_eval(column: Column) -> Column:
    """The column's value; null on a row for which it throws."""
    from pyspark.sql import Column as PySparkColumn

    jvm = packages()
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    expression = utils.expression(column._jc)
    return PySparkColumn(utils.column(jvm.org.apache.spark.sql.catalyst.expressions.TryEval(expression)))


def data_type(schema: str) -> Any:
    """A type of Spark's in the JVM, from its JSON text."""
    return packages().org.apache.spark.sql.types.DataType.fromJson(schema)


def has_resource(name: str) -> bool:
    """Whether the JVM finds a file of this name on its class path."""
    return packages().java.lang.Thread.currentThread().getContextClassLoader().getResource(name) is not None


def new_session(spark: SparkSession) -> Any:
    """A session of the JVM with settings of its own, and with the catalog of this session."""
    return spark._jsparkSession.newSession()


def separate_session(spark: SparkSession, options: Mapping[str, str]) -> Any:
    """A session of the JVM that shares executors with this one, and neither catalog nor settings.

    Args:
        options: Spark's settings and Hadoop's properties of the new session; they win over the context's.
    """
    given = packages().java.util.HashMap()
    for name, value in options.items():
        given.put(name, value)
    context = spark.sparkContext._jsc.sc()
    session = packages().org.apache.spark.sql.classic.SparkSession(context, given)
    # The state of a session listens to all queries of the process, for Spark's page.
    listener = session.sharedState().statusStore().listener()
    if listener.isDefined():
        context.removeSparkListener(listener.get())
    return session


def plan_operators(frame: DataFrame) -> list[str]:
    """Names of the operators in a frame's analyzed plan, outermost first."""
    names: list[str] = []
    nodes = [frame._jdf.queryExecution().analyzed()]
    while nodes:
        node = nodes.pop()
        names.append(node.nodeName())
        children = node.children()
        nodes.extend(children.apply(i) for i in range(children.size()))
    return names


def operands(frame: DataFrame) -> list[list[tuple[str, str, str]]]:
    """What Spark has made of the operands of a projection's columns: as the analyzed plan compares them.

    Returns:
        For each column, of each operand of its outermost function: the name of the operand's own function,
        its type as SQL writes it, and its own second operand's text, empty without one.
    """
    columns = frame._jdf.queryExecution().analyzed().projectList()
    found = []
    for place in range(columns.size()):
        compared = columns.apply(place).children().apply(0).children()  # behind the alias
        each = [compared.apply(at) for at in range(compared.size())]
        seconds = [one.children().apply(1).toString() if one.children().size() > 1 else "" for one in each]
        found.append(
            [
                (one.nodeName(), one.dataType().sql(), second)
                for one, second in zip(each, seconds, strict=True)
            ]
        )
    return found


def is_same_plan(one: DataFrame, other: DataFrame) -> bool:
    """Whether Spark sees that two frames have the same rows: as it analyzes them, or as it optimizes them."""
    first, second = (frame._jdf.queryExecution() for frame in (one, other))
    return bool(
        first.analyzed().sameResult(second.analyzed())
        or first.optimizedPlan().sameResult(second.optimizedPlan())
    )


def max_heap_bytes() -> int:
    """The largest size of the JVM's heap, in bytes."""
    return int(packages().java.lang.Runtime.getRuntime().maxMemory())


def parse_bytes(text: str) -> int:
    """The bytes of a size as Spark's settings have it, such as ``1g``."""
    return int(packages().org.apache.spark.network.util.JavaUtils.byteStringAsBytes(text))


def estimated_bytes(frame: DataFrame) -> int:
    """A frame's size by the statistics of its optimized plan: files as on disk, a cached frame as cached."""
    return int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())


def without_foreign_order(frame: DataFrame) -> DataFrame:
    """The frame, which can be persisted: its rows may be ordered by a column that it does not have.

    So Spark gives the result of a streaming aggregate whose values have no fixed width, such as a largest
    text: rows ordered by the group's column of the source. Spark fails to use such a frame from its cache.
    """
    # Not the optimized plan: once it is known, the frame itself does not use the cache any more.
    plan = frame._jdf.queryExecution().analyzed()
    order, own = plan.outputOrdering(), plan.outputSet()
    if all(order.apply(place).references().subsetOf(own) for place in range(order.size())):
        return frame
    from pyspark.sql.classic.dataframe import DataFrame

    rows = frame._jdf.queryExecution().toRdd()
    plain = frame._jdf.sparkSession().internalCreateDataFrame(rows, frame._jdf.schema(), False)
    return DataFrame(plain, frame.sparkSession)


def delete_folder(spark: SparkSession, path: str) -> None:
    """Delete a folder and all in it, by the Hadoop file system of its path."""
    folder = packages().org.apache.hadoop.fs.Path(path)
    folder.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).delete(folder, True)


def remove_files(spark: SparkSession, path: str, removals: Sequence[str]) -> None:
    """Remove whole data files from a Delta table by one commit; the files stay on the disk until a vacuum.

    SQL has no statement for that: ``DELETE`` reads the rows and writes those that it keeps again.

    Args:
        spark: The session; its ``userMetadata`` becomes the commit's.
        path: The table. Its property ``delta.appendOnly`` must not be true.
    """
    jvm = packages()
    delta = jvm.org.apache.spark.sql.delta
    transaction = delta.DeltaLog.forTable(spark._jsparkSession, path).startTransaction()
    action = getattr(delta.actions, "Action$").__getattr__("MODULE$")
    seq = jvm.PythonUtils.toSeq
    # An operation without numbers of its own: a DELETE counts the rows that it has read.
    operation = getattr(delta, "DeltaOperations$ManualUpdate$").__getattr__("MODULE$")
    transaction.commit(seq([action.fromJson(text) for text in removals]), operation)


def name_in_log(spark: SparkSession, query: str, batch_id: int) -> None:
    """Name query and micro-batch in the JVM's log lines of this thread, and of the tasks that it starts."""
    context = spark.sparkContext
    context.setLocalProperty("mdc.query", query)
    context.setLocalProperty("mdc.batch_id", str(batch_id))
    # Spark copies local properties into the log's context of a task, but not of the thread that starts it.
    packages().org.apache.logging.log4j.ThreadContext.put("mdc.batch_id", str(batch_id))


def clear_table_cache() -> None:
    """Release the state of Delta tables that the JVM keeps for an hour after a table's last use."""
    packages().org.apache.spark.sql.delta.DeltaLog.clearCache()


def streaming_listeners(spark: SparkSession) -> Any:
    """The JVM's streaming query manager, which takes listeners that are Java objects."""
    return spark.streams._jsqm


def observed_counts(execution: Any, name: str) -> dict[str, int]:
    """The numbers that ``frame.observe(name, …)`` has counted so far in an execution; none without it."""
    found = execution.observedMetrics()
    if not found.contains(name):
        return {}
    row = found.apply(name)
    return {field: int(row.getAs(field)) for field in row.schema().fieldNames()}


def reset_observed_counts(execution: Any) -> None:
    """Set the numbers of every ``frame.observe`` in an execution to zero."""
    nodes: list[Any] = [execution.executedPlan()]
    while nodes:
        node = nodes.pop()
        if node.getClass().getSimpleName() == "CollectMetricsExec":
            node.resetMetrics()  # of its children too, whose metrics are for Spark's own pages only
        children = node.children()
        nodes.extend(children.apply(i) for i in range(children.size()))


def last_execution(query: StreamingQuery) -> Any:
    """The execution of a query's current or last micro-batch; null before the first."""
    return query._jsq.streamingQuery().lastExecution()
