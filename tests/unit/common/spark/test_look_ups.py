"""What py4j asks the JVM for, and how often."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from py4j.java_gateway import JavaClass, JavaPackage, JVMView

from common.spark import jvm

ANSWERS = {"org": "yp", "java.lang.Math": "ycjava.lang.Math", "max": "ym", "limit": "yi5", "Late": "yp"}
"""What a JVM says of each name: a package, a class, a method, a number, and a class that is not there yet."""


def test_classes_packages_and_static_methods_are_looked_up_once_and_nothing_else() -> None:
    """The value of a field may change, and a class that is not there may come with a jar."""
    jvm._look_up_once()
    jvm._look_up_once()
    asked: list[str] = []

    def send(command: str) -> str:
        asked.append([word for word in command.split("\n") if word in ANSWERS][-1])
        return ANSWERS[asked[-1]]

    client: Any = SimpleNamespace(
        send_command=send, gateway_property=SimpleNamespace(pool=None), converters=()
    )
    root = JVMView(client, "jvm", id="rj")
    for _ in range(3):
        assert isinstance(root.org, JavaPackage)
        found = getattr(root, "java.lang.Math")
        assert isinstance(found, JavaClass)
        assert callable(found.max)
        assert found.limit == 5
        assert isinstance(root.Late, JavaPackage)
    assert sorted(asked) == ["Late"] * 3 + ["java.lang.Math"] + ["limit"] * 3 + ["max", "org"]
