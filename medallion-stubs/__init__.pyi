# Types of the module medallion.py in a wheel: the marker py.typed is for packages only (PEP 561).
from common.declare import *  # noqa: F403  # a stub hands on what the other module has in __all__
from orchestration.author.cases.read.load import case as case
