"""The version, where the build finds it without importing anything else."""

__version__ = "0.1.0"
