"""The statements by which a script records its checks: one row per check in the table ``checks``."""

from __future__ import annotations

from common.sql.quoting import standard_text
from orchestration.records.audit.gold.close_floats import IS_CLOSE

_TABLES = """\
CREATE TABLE checks (about VARCHAR, "check" VARCHAR, verdict VARCHAR, expected VARCHAR, found VARCHAR,
  first_differing VARCHAR);
-- The checks that need an answer: each has a row 'answered' below, unless DuckDB could not finish it.
CREATE TABLE planned (about VARCHAR, "check" VARCHAR);

CREATE MACRO shown_places(places) AS
  array_to_string(list_transform(places, lambda p: p.topic || '/' || p.partition || '/' || p."offset"), ', ');

"""

_SHOWN = """\
-- Keys may hold anything: letters that control or deceive a terminal are shown as question marks.
CREATE MACRO shown_keys(keys) AS
  regexp_replace(array_to_string(keys, ', '),
    '[\\x{00}-\\x{1f}\\x{7f}-\\x{9f}\\x{061c}\\x{200b}-\\x{200f}\\x{2028}-\\x{202e}\\x{2060}-\\x{2069}\\x{feff}]',
    '?', 'g');
"""

START = _TABLES + IS_CLOSE + _SHOWN

END = """\
CREATE VIEW answers AS
  SELECT row_number() OVER (ORDER BY is_missing, place) AS place, * EXCLUDE (place, is_missing) FROM (
    SELECT false AS is_missing, rowid AS place, * FROM checks WHERE verdict <> 'answered'
    UNION ALL
    SELECT true, rowid, about, "check", 'different', 'an answer', 'none: DuckDB ended it with an error', ''
    FROM planned AS p WHERE NOT EXISTS (
      FROM checks AS c WHERE c.about = p.about AND c."check" = p."check" AND c.verdict = 'answered'));

SELECT about, "check", verdict, expected, found, first_differing FROM (
  FROM answers
  UNION ALL
  SELECT count(*) + 1, 'all', count(*) || ' checks',
    CASE WHEN count(*) FILTER (verdict = 'different') > 0 THEN 'different'
      WHEN count(*) FILTER (verdict = 'equal') = 0 THEN 'not compared: nothing was compared' ELSE 'equal' END,
    count(*) FILTER (verdict = 'equal') || ' equal, '
      || count(*) FILTER (verdict = 'different') || ' different',
    count(*) FILTER (verdict LIKE 'not compared%') || ' not compared', ''
  FROM answers)
ORDER BY place;

-- The end: an error, and with it an exit status that is not 0, if a check found a difference
-- or nothing was compared.
SELECT CASE WHEN count(*) FILTER (verdict = 'different') > 0
  THEN error('the proof does not hold: ' || count(*) FILTER (verdict = 'different') || ' of ' || count(*)
    || ' checks differ')
  WHEN count(*) FILTER (verdict = 'equal') = 0
  THEN error('the proof does not hold: nothing was compared, the reasons are in the rows above')
  ELSE 'the proof holds: ' || count(*) FILTER (verdict = 'equal') || ' of ' || count(*)
    || ' checks are equal, ' || count(*) FILTER (verdict LIKE 'not compared%')
    || ' not compared, none differs' END AS verdict
FROM answers;
"""


def heading(text: str) -> str:
    """A comment that begins a part of the script."""
    return f"\n{'-' * 100}\n-- {text}\n{'-' * 100}"


def compared(  # noqa: PLR0913  # the columns of a check
    *,
    about: str,
    check: str,
    holds: str,
    expected: str,
    found: str,
    shown: str,
    rows: str,
    otherwise: str = "'different'",
) -> str:
    """A statement that records a check.

    Args:
        check: SQL text: what is compared; ``expected``, ``found`` and ``shown`` likewise.
        holds: SQL condition under which it is equal.
        expected: What must be there.
        found: What is there.
        shown: The first keys or coordinates that differ; only printed if it does not hold.
        rows: The rest of the SELECT statement, from FROM on.
        otherwise: SQL text: the verdict if it does not hold.
    """
    name = ", ".join(map(standard_text, (about, check.split("'")[1].strip(" :"))))
    return f"""\
INSERT INTO planned VALUES ({name});
INSERT INTO checks
(SELECT {standard_text(about)}, {check},
  CASE WHEN {holds} THEN 'equal' ELSE {otherwise} END,
  {expected},
  {found},
  CASE WHEN {holds} THEN '' ELSE coalesce({shown}, '') END
{rows})
UNION ALL SELECT {name}, 'answered', '', '', '';"""  # SQL of the engine's own, declared names quoted


def stated(about: str, check: str, verdict: str, expected: str, found: str) -> str:
    """A statement that records what was known when the script was written."""
    listed = ", ".join(standard_text(text) for text in (about, check, verdict, expected, found, ""))
    return f"INSERT INTO checks VALUES ({listed});"


def not_compared(about: str, check: str, why: str) -> str:
    """A statement that records what the script does not compare, and why."""
    return stated(about, check, f"not compared: {why}", "", "")
