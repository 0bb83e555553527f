"""The same pipeline with other magnitude classes, which silver computes."""

from dataclasses import replace

from pipeline import pipeline as live

MAGNITUDE_CLASS = """
    case when properties.mag < 3 then 'not felt' when properties.mag < 5 then 'felt'
         when properties.mag < 7 then 'damaging' else 'destructive' end"""

(silver,) = live.silver
by_network, *others = live.gold
pipeline = replace(
    live,
    silver=[replace(silver, columns={**silver.columns, "magnitude_class": MAGNITUDE_CLASS})],
    gold=[replace(by_network, by=["network", "magnitude_class"]), *others],
)
