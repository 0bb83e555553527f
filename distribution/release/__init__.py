"""A release: checked, built twice, listed part by part, and tagged (``make release``)."""
