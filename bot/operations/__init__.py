"""The operators' commands: check, explain, pending, pause, reapply, withdraw, audit.

Each file is one task. The command line in `commands` only reads options and prints. Begin with `operate.py`.
"""
