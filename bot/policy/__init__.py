"""Policies: who may decide which call. Read from the settings file and checked. Pure, except that `when` asks a
bounded process, and `python_approvers` calls functions of operators.

How an expression, an approver or a redaction works can be changed in this room alone. A new policy key also takes
effect somewhere in `confirmation`. Begin with `policies.py`.
"""
