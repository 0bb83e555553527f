"""Alerts: rules over the model of a pipeline, and the channels that say to people what is wrong."""
