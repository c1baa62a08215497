"""What the operators' commands do, from `check` and `pending` to `withdraw` and `audit verify`.

Each file is one task and can be changed alone. The command line in `commands` only reads options and prints. Begin with
`operate.py`.
"""
