# Types of the module medallion.py in a wheel: the marker py.typed is for packages only (PEP 561).
from common.declare import *
