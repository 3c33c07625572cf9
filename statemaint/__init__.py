"""Maintains the state of Spark Structured Streaming queries outside their executors."""

__version__ = "0.1.0"
