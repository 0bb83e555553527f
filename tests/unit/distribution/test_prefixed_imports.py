"""What the build of the wheel makes of a module's imports."""

from __future__ import annotations

import ast
import sys
from types import ModuleType

import pytest

from distribution.prefixed_imports import prefixed

NAMES = ("common", "gold")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from common.errors import A, B\n", "from medallion.common.errors import A, B\n"),
        ("from gold import custom\n", "from medallion.gold import custom\n"),
        ("import gold.query as query\n", "import medallion.gold.query as query\n"),
        ("import gold.query  # why\n", "import medallion.gold.query; from medallion import gold  # why\n"),
        (
            "import os, common.a, gold.b\n",
            "import os, medallion.common.a, medallion.gold.b; from medallion import common, gold\n",
        ),
        ("if True: import gold\n", "if True: import medallion.gold; from medallion import gold\n"),
        ("é = 'è'; from  common import é\n", "é = 'è'; from  medallion.common import é\n"),
        ("from common.errors import (\n    A,\n)\n", "from medallion.common.errors import (\n    A,\n)\n"),
    ],
)
def test_imports_are_prefixed(source: str, expected: str) -> None:
    assert prefixed(source, NAMES, "medallion") == expected


@pytest.mark.parametrize(
    "source",
    [
        "from .common import A\n",
        "from . import common\n",
        "from commonly import A\nimport golden.common\n",
        "text = 'from common import A'  # from common import A\n",
        "common.errors = gold\n",
        "import os\r\n",
        "no_newline = 1",
    ],
)
def test_all_else_stays(source: str) -> None:
    assert prefixed(source, NAMES, "medallion") == source


def test_the_same_names_are_bound_on_the_same_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def f():\n    import common.errors\n    from gold import query as q\n    return common, q\n"
    made = prefixed(source, NAMES, "medallion")
    assert len(made.splitlines()) == len(source.splitlines())
    medallion, common, errors, gold = map(ModuleType, ("medallion", "common", "errors", "gold"))
    medallion.common, medallion.gold, gold.query = common, gold, "the query"  # type: ignore[attr-defined]
    for name, module in {"": medallion, ".common": common, ".common.errors": errors, ".gold": gold}.items():
        monkeypatch.setitem(sys.modules, f"medallion{name}", module)
    names: dict[str, object] = {}
    exec(compile(ast.parse(made), "made", "exec"), names)  # noqa: S102  # the text of this test
    assert names["f"]() == (common, "the query")  # type: ignore[operator]
