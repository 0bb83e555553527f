"""Whatever text a View or an expression gets, it is read in words: the product's own errors or none, and soon."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random

import pytest

from common.errors import MedallionError
from common.sql.expression import analyze
from common.sql.reading import expression as parse
from tests.support.drawn.any_text import OTHER_DIALECTS, as_view, chains, draw_expression, draw_text, nested
from tests.support.drawn.checked import problems
from tests.support.drawn.documented import documented_statements
from tests.support.drawn.tables import COLUMNS
from tests.support.run_cost import PIECE_CPU_SECONDS, piece_of_work

SECONDS = 2.0
SECONDS_OF_THOUSANDS = 20.0
"""For a text with thousands of columns, tables or operands."""
DOCUMENTED = documented_statements()


class _Warnings(logging.Handler):
    """What libraries log from warnings on."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{record.name}: {record.getMessage()}")


@contextmanager
def _logged() -> Iterator[_Warnings]:
    handler = _Warnings()
    logging.getLogger().addHandler(handler)
    try:
        yield handler
    finally:
        logging.getLogger().removeHandler(handler)


def faults_of(read: Callable[[str], object], texts: Iterable[str], seconds: float = SECONDS) -> list[str]:
    """How some texts are read in another way than in words: an error, a warning, or too late.

    The seconds are those of the machine of the budget: a slower one may take more.
    """
    found, slower = [], max(1.0, piece_of_work() / PIECE_CPU_SECONDS)
    with _logged() as handler, warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in texts:
            handler.texts.clear()
            # Of this process: others may share the cores.
            begun = time.process_time()
            try:
                read(text)
            except MedallionError as error:
                how = "" if str(error).strip() else "an error without words"
            except Exception as error:  # noqa: BLE001  # whatever is raised is the fault that is looked for
                how = f"{type(error).__name__}: {str(error)[:100]}"
            else:
                how = ""
            took = time.process_time() - begun
            how = how or (handler.texts[0] if handler.texts else "")
            how = how or (f"{took:.1f} s" if took > seconds * slower else "")
            if how:
                found.append(f"{how} | {text[:300]!r}")
    return found


def _told(faults: list[str], capfd: pytest.CaptureFixture[str]) -> list[str]:
    printed = capfd.readouterr().err
    return faults + ([f"printed: {printed[:300]}"] if printed else [])


def check(sql: str) -> None:
    problems(sql, COLUMNS)


def test_a_text_of_another_dialect_is_read_in_words(capfd: pytest.CaptureFixture[str]) -> None:
    assert _told(faults_of(check, OTHER_DIALECTS), capfd) == []


@pytest.mark.parametrize("depth", [100, 400, pytest.param(3000, marks=pytest.mark.long)])
def test_a_deep_text_is_read_in_words(depth: int, capfd: pytest.CaptureFixture[str]) -> None:
    seconds = SECONDS if depth < 1_000 else SECONDS_OF_THOUSANDS
    assert _told(faults_of(check, nested(depth), seconds), capfd) == []
    (said,) = problems(nested(depth)[0], COLUMNS) or [""]
    assert ("nested too deeply" in said) == (depth > 100)


def test_a_chain_of_operators_that_a_program_has_written_is_read(capfd: pytest.CaptureFixture[str]) -> None:
    texts = chains(3000)
    assert _told(faults_of(check, texts), capfd) == []
    assert [problems(text, COLUMNS) for text in texts] == [[]] * len(texts)
    assert len(analyze(" or ".join(["v = 1"] * 3000)).columns) == 1


@pytest.mark.parametrize("count", [500, pytest.param(20_000, marks=pytest.mark.long)])
def test_a_drawn_text_is_read_in_words(count: int, capfd: pytest.CaptureFixture[str]) -> None:
    texts = (draw_text(Random(f"text {seed}"), DOCUMENTED) for seed in range(count))
    assert _told(faults_of(check, texts), capfd) == []


@pytest.mark.long
def test_a_documented_statement_is_read_in_words(capfd: pytest.CaptureFixture[str]) -> None:
    texts = (view for text in DOCUMENTED for view in as_view(text))
    assert _told(faults_of(check, texts), capfd) == []


@pytest.mark.parametrize("count", [1_500, pytest.param(30_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("read", [analyze, parse])
def test_an_expression_is_read_in_words(
    read: Callable[[str], object], count: int, capfd: pytest.CaptureFixture[str]
) -> None:
    texts = (draw_expression(Random(f"expression {seed}"), DOCUMENTED) for seed in range(count))
    assert _told(faults_of(read, texts), capfd) == []
