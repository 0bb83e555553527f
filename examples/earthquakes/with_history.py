"""The same pipeline, and files of what the feed published before its topic was made.

Put GeoJSON features, one per line, into files of the folder `history` beside this file.
"""

from dataclasses import replace

from pipeline import pipeline as live

from medallion import Files

history = Files("history", path="history", format="jsonl", into="bronze.quakes")
pipeline = replace(live, bronze=[*live.bronze, history])
