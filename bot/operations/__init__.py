"""What an operator asks for: check, explain, pending, pause, reapply, withdraw, audit.

Each file is one task; the command line in `commands` only reads options and prints. Begin with `operate.py`.
"""
