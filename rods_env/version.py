"""The versions, where the build finds them without importing anything else."""

__version__ = "0.1.0"
# Raised with every change of APIs, tasks or texts; shipped policies name the one they were made for.
SUITE_VERSION = "1"
