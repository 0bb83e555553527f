"""The files that bronze tables are read from: which offsets they have, and files that are given up."""
