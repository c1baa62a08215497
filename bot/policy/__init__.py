"""Who may decide which call: policies as the file gives them, read and checked. Pure, but for `python_approvers`.

How an expression, an approver or a redaction works can be changed here alone. A new policy key also needs a place in
`confirmation` where it takes effect. Begin with `model.py`.
"""
