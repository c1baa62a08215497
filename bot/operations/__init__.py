"""What the operators' commands do: check, explain, pending, pause, reapply, withdraw, audit.

Each file is one task and can be changed alone. The command line in `commands` only reads options and prints. Begin with
`operate.py`.
"""
