"""The files of cases are run by ``test_spec.py``, all of them together."""

collect_ignore_glob = ["*.cases.yaml"]
