"""The multi-turn tasks of BFCL V3 on their own simulators, read from the installed package `bfcl-eval`."""
