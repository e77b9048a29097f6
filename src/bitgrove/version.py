"""The version of this library, also told between the machines of a cluster."""

__version__ = "0.1.0"
