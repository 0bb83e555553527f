"""The codes of all mistakes and errors, such as ``MED-1202``, of which ``docs/reference/errors.md`` is made.

A mistake of what the user wrote carries its code (``common.errors.Fault``), an error has that of its class. A
code keeps its meaning from release to release, and one that is no longer used is not given again.

``MED-1…``: what the user wrote must change; ``MED-2…``: the machine or a service; ``MED-3…``: tables and
checkpoints; ``MED-4…``: a query; ``MED-5…``: what a check of the data found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from common.errors import DOUBTFUL, UNNAMED, CaseError, MedallionError, PipelineError, Problem, SettingsError


@dataclass(frozen=True, slots=True)
class Code:
    """What a code stands for.

    Attributes:
        title: The mistake, or what has happened.
        advice: What to do.
        error: The class of errors that has the code; empty for a mistake.
    """

    title: str
    advice: str
    error: str = ""


CODES: Mapping[str, Code] = {
    UNNAMED: Code(
        "A mistake without a code of its own.",
        "The message says what to write.",
    ),
    "MED-1001": Code(
        "The pipeline file is not valid Python.",
        "Mend the line that the message names; often a bracket or a quote is missing on the line before it.",
    ),
    "MED-1002": Code(
        "The pipeline file raised an error while it was loaded.",
        "The message has Python's own error. Loading a pipeline file must only declare: move what"
        " opens files or connections into a function of a `Custom` or `ForeachSink`.",
    ),
    "MED-1003": Code(
        "The file has no value named `pipeline`.",
        "End the file with `pipeline = Pipeline(…)`.",
    ),
    "MED-1004": Code(
        "A name is not defined, or `medallion` has no such name.",
        "Write the name that the message proposes; classes of a declaration are imported by `from"
        " medallion import …`.",
    ),
    "MED-1100": Code(
        "The pipeline file is wrong.",
        "`medallion check` shows each mistake with its line and its own code.",
        error="PipelineError",
    ),
    "MED-1101": Code(
        "A declaration is given an attribute that it does not have.",
        "Write the attribute that the message proposes; [declarations](../author/declarations.md)"
        " has them all.",
    ),
    "MED-1102": Code(
        "A declaration lacks an attribute.",
        "Add it; the message has an example.",
    ),
    "MED-1103": Code(
        "An attribute has a value of the wrong kind, or one that it does not take.",
        "Write a value of the kind that the message names; a word that is nearly right is proposed.",
    ),
    "MED-1104": Code(
        "A number, a share or a length of time is out of its range.",
        "Write one within the range that the message names.",
    ),
    "MED-1105": Code(
        "Two attributes contradict each other, or one needs another.",
        "Leave one of them out, or add the one that the message names.",
    ),
    "MED-1106": Code(
        "An option of the Kafka clients is misspelt, or the engine sets it itself.",
        "Write the option that the message proposes, or the attribute that it names.",
    ),
    "MED-1200": Code(
        "An SQL text cannot be read.",
        "The message names the word at which reading fails.",
        error="SqlError",
    ),
    "MED-1201": Code(
        "An SQL text cannot be read.",
        "The message names the word at which reading fails. One expression of Spark SQL is "
        "expected, for a `View` one SELECT statement.",
    ),
    "MED-1202": Code(
        "A column or a field does not exist.",
        "Write the name that the message proposes. Silver's columns see the fields of the value "
        "and `_kafka`; rules and gold see the columns of the table that they read.",
    ),
    "MED-1203": Code(
        "Spark has no function of this name.",
        "Write the function that the message proposes; one of an extension needs the setting "
        "`spark.conf.spark.sql.extensions`.",
    ),
    "MED-1204": Code(
        "An expression aggregates, or looks at other rows, where it is evaluated row by row; or "
        "it gives several rows, or no single value.",
        "Put aggregates into the measures of an `Aggregate`, or write a `View`.",
    ),
    "MED-1205": Code(
        "An expression has another value when a micro-batch is replayed.",
        "Compute it from columns of the row.",
    ),
    "MED-1206": Code(
        "A measure is no aggregate, or one that cannot be kept.",
        "A measure is one value per group, such as `count(*)` or `max(x)`.",
    ),
    "MED-1207": Code(
        "A column or an expression has a type that does not fit.",
        "Convert it as the message says.",
    ),
    "MED-1208": Code(
        "An expression stops the query at some values.",
        "Write the form that gives null for such a value: `try_cast`, `try_divide`, `get`, ….",
    ),
    "MED-1209": Code(
        "A column names another column of the same table.",
        "A column sees only what the table reads: repeat the expression.",
    ),
    "MED-1210": Code(
        "A view is to be kept in a way in which its statement cannot be kept.",
        "Leave `kept` out, or change the statement; `medallion explain TABLE` says how it is kept.",
    ),
    DOUBTFUL: Code(
        "A warning: an expression is allowed, and can hardly mean what it says.",
        "Write what the message proposes. A start takes it as it is, and the exit code of `medallion check` "
        "does not count it.",
    ),
    "MED-1301": Code(
        "A table is named that the pipeline does not declare, or that cannot be read there.",
        "Write the table that the message proposes: silver reads bronze, gold reads silver, a "
        "`View` also reads gold.",
    ),
    "MED-1302": Code(
        "Tables or topics read each other in a circle.",
        "One of them must read something else.",
    ),
    "MED-1303": Code(
        "A name is used twice.",
        "Rename one; one table has one writer.",
    ),
    "MED-1304": Code(
        "A name is not allowed.",
        "Rename it: Delta, Spark or the engine itself uses it, or has no such letter.",
    ),
    "MED-1305": Code(
        "A table reads rows that are replaced or deleted later, and cannot take them back.",
        'Declare it with `mode="recompute"`, or read a table that keeps its rows.',
    ),
    "MED-1401": Code(
        "The schema of a value cannot be read.",
        "Write DDL text such as `id string, amount decimal(12,2)`, or the name of a file with a schema.",
    ),
    "MED-1402": Code(
        "A field of a schema has a type that is unknown or is not read.",
        "Write the type that the message proposes.",
    ),
    "MED-1403": Code(
        "`required` names a field that the schema does not have.",
        "Write the field that the message proposes.",
    ),
    "MED-1500": Code(
        "A setting is wrong.",
        "Each line of the message names one setting, with file, line and column.",
        error="SettingsError",
    ),
    "MED-1501": Code(
        "A setting does not exist.",
        "Write the setting that the message proposes; [settings](../install/settings.md) has them all.",
    ),
    "MED-1502": Code(
        "A setting has a value that it does not take, or that cannot work.",
        "Write a value of the kind that the message names.",
    ),
    "MED-1503": Code(
        "A settings file cannot be read.",
        "Mend the line that the message names.",
    ),
    "MED-1504": Code(
        "A setting is missing that the pipeline needs.",
        "Set it in `medallion.yaml`.",
    ),
    "MED-1600": Code(
        "A case of the pipeline's own tests is wrong.",
        "The message names file and line; [testing](../author/testing.md) has the form of a case.",
        error="CaseError",
    ),
    "MED-1601": Code(
        "A case of the pipeline's own tests is wrong.",
        "[testing](../author/testing.md) has the form of a case.",
    ),
    "MED-1701": Code(
        "A command is used wrongly: an option, an argument, or options that exclude each other.",
        "The message has the right form; `medallion COMMAND --help` lists the options.",
        error="UsageError",
    ),
    "MED-2001": Code(
        "The machine lacks something that the engine needs.",
        "`medallion doctor` says what, and what to type.",
        error="SetupError",
    ),
    "MED-2002": Code(
        "Packages of an extra are not installed.",
        "Type the command of the message.",
        error="MissingExtraError",
    ),
    "MED-2003": Code(
        "There is no usable Java 17 or 21.",
        "Install one, or set `java_home`; `medallion doctor` shows which was found.",
        error="JavaError",
    ),
    "MED-2004": Code(
        "A jar is missing, altered, or cannot be fetched.",
        "`medallion jars` fetches the locked jars; without a network see [wheel](../install/wheel.md).",
        error="JarError",
    ),
    "MED-2005": Code(
        "The embedded broker cannot start or stop, or a broker cannot be reached.",
        "Check the address, the network and the login that the message names.",
        error="BrokerError",
    ),
    "MED-2006": Code(
        "The broker does not answer a running query.",
        "Nothing: the query waits and goes on by itself.",
        error="BrokerAwayError",
    ),
    "MED-2007": Code(
        "The address of the page cannot be listened at.",
        "Name a free port of this machine, as in `--http 127.0.0.1:8484`.",
        error="AddressError",
    ),
    "MED-2008": Code(
        "The object store does not answer, or refuses.",
        "Check its address, the bucket and the credentials, then repeat the command.",
        error="StoreError",
    ),
    "MED-2009": Code(
        "The schema registry does not answer, or its answer is no schema.",
        "Nothing, if it comes back: the query waits. Else check `silver.schema_registry`.",
        error="RegistryError",
    ),
    "MED-3001": Code(
        "A table or checkpoint is not what the job expects.",
        "The message names both and the command that mends it; see "
        "[checkpoints](../run/checkpoints-and-topics.md).",
        error="TableError",
    ),
    "MED-3002": Code(
        "A catalog has another table under this name.",
        "Rename one; the job goes on without the entry.",
        error="CatalogError",
    ),
    "MED-3003": Code(
        "A table does not exist yet.",
        "Start the job that writes it.",
        error="TableMissingError",
    ),
    "MED-3004": Code(
        "A table has other columns than the pipeline declares.",
        "`medallion plan` says what differs, and which command fills the new columns.",
        error="TableShapeError",
    ),
    "MED-3005": Code(
        "The log or the files of a table no longer reach back as far as a query must read.",
        "The message names the command that fills the table again.",
        error="HistoryGoneError",
    ),
    "MED-3006": Code(
        "A checkpoint and the table that its query writes do not belong together.",
        "`medallion recover --plan` says what is wrong and what would mend it.",
        error="CheckpointMismatchError",
    ),
    "MED-3007": Code(
        "A Kafka topic is gone, or another one than bronze has read.",
        "See [topics](../run/checkpoints-and-topics.md#topics).",
        error="TopicChangedError",
    ),
    "MED-3008": Code(
        "Another program changed rows of a table that a stream reads.",
        "Undo the change, or accept it by the setting that the message names.",
        error="ForeignChangeError",
    ),
    "MED-4001": Code(
        "A query failed.",
        "The message has the cause; the log of the job has all of it.",
        error="QueryFailedError",
    ),
    "MED-4002": Code(
        "The source of a query has new columns.",
        "Nothing: the query starts again with them.",
        error="SourceChangedError",
    ),
    "MED-4003": Code(
        "Columns of the source of a query were removed, renamed or got another type.",
        "Fill the table again, as the message says.",
        error="SourceReplacedError",
    ),
    "MED-4004": Code(
        "A query failed for a cause that passes.",
        "Nothing, if it passes: the query is restarted.",
        error="TransientFailureError",
    ),
    "MED-4005": Code(
        'A row broke a rule with `on_fail="fail"`.',
        "Mend the sender, or take another `on_fail`.",
        error="RuleFailedError",
    ),
    "MED-4006": Code(
        "A change feed has an operation that the declaration does not know.",
        "Declare it in `upserts`, `deletes` or `ignores`.",
        error="ChangeRefusedError",
    ),
    "MED-4007": Code(
        'A value has an unknown field under `unknown_fields="fail"`.',
        "Add the field to the schema, or take another `unknown_fields`.",
        error="UnknownFieldError",
    ),
    "MED-4008": Code(
        "Kafka no longer has records that bronze has not read.",
        "`medallion recover` accepts the gap, see [checkpoints](../run/checkpoints-and-topics.md).",
        error="RecordsGoneError",
    ),
    "MED-4009": Code(
        "A file of the query's checkpoint is damaged or gone.",
        "`medallion recover --plan`.",
        error="StateDamagedError",
    ),
    "MED-4010": Code(
        "A disk is full.",
        "Make room and start again; nothing is lost.",
        error="DiskFullError",
    ),
    "MED-4011": Code(
        "Too little space is free for a micro-batch.",
        "Make room: the query goes on by itself.",
        error="DiskLowError",
    ),
    "MED-4012": Code(
        "The heap of Spark's JVM was full.",
        "Set `spark.driver_memory` higher, or micro-batches smaller.",
        error="OutOfMemoryError",
    ),
    "MED-4013": Code(
        "The query's state was written with another schema than it is declared with.",
        "Declare it as it was, or begin anew: `medallion rebuild gold.x`. "
        "See [state of your own](../author/stateful.md#another-state).",
        error="StateChangedError",
    ),
    "MED-4014": Code(
        "Spark refuses a statement, an expression or an option of a table.",
        "Correct the text at the line and column of the message, and start again. The other tables go on.",
        error="StatementRefusedError",
    ),
    "MED-4015": Code(
        "A row makes a statement or an expression of a table fail.",
        "Correct the row, or write the form that gives null for it: the message names both, and what to type."
        " See [one bad row](../author/gold.md#one-bad-row).",
        error="RowFailedError",
    ),
    "MED-4016": Code(
        "Tables of a run have failed; the others went on.",
        "Each line of the message names one of them, with its own code.",
        error="TablesFailedError",
    ),
    "MED-4017": Code(
        "A table waits for one that has failed.",
        "Mend the table that has failed: this one then goes on.",
    ),
    "MED-5001": Code(
        "The audit found offsets that are in no table, in two, or miscounted.",
        "The report names them; see [what happens to a row](../records/what-happens-to-a-row.md).",
        error="AccountError",
    ),
    "MED-5002": Code(
        "A quality suite failed.",
        "`medallion quality run --examples 5` names failing rows.",
        error="QualityFailedError",
    ),
    "MED-5003": Code(
        "Another process writes the table.",
        "End that job first.",
        error="LeaseHeldError",
    ),
    "MED-5004": Code(
        "Another process has taken the table over.",
        "End the other job first, if this one is to write.",
        error="LeaseLostError",
    ),
    "MED-5005": Code(
        "A case of the pipeline's own tests failed.",
        "The report shows the rows that differ.",
        error="CasesFailedError",
    ),
    "MED-5006": Code(
        "A table does not have the rows of the source that it was compared with.",
        "The report names the keys; `medallion trace TABLE --key …` shows the way of one. "
        "[How a comparison is read](../records/reconcile.md).",
        error="ReconciliationError",
    ),
}
"""All codes, in order."""

EXIT_CODES: Mapping[int, str] = {
    0: "The command has done what it was told.",
    1: "An error of the machine, a table, a query or the audit; the message has its code.",
    2: "What was written must change: an option, a setting, the pipeline file or a case.",
    3: "A quality suite failed.",
    4: "Another process writes the table.",
    5: "A case of the pipeline's own tests failed (`medallion test`).",
    6: "The plan has something to do (`medallion plan`).",
    130: "Interrupted by Ctrl-C or a signal.",
}
"""What the exit code of a command means; each has one meaning."""

TO_DO = 6
"""Exit code of a plan that has something to do."""

_OF_CLASSES = {each.error: code for code, each in CODES.items() if each.error}


def code_of(error: MedallionError | Problem) -> str:
    """The code of an error, or of a mistake."""
    if isinstance(error, Problem):
        return error.code
    if isinstance(error, PipelineError | CaseError | SettingsError) and len(error.problems) == 1:
        found = error.problems[0].code
        if found != UNNAMED:
            return found
    names = (kind.__name__ for kind in type(error).__mro__)
    return next((_OF_CLASSES[name] for name in names if name in _OF_CLASSES), UNNAMED)
