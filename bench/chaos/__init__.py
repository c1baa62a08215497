"""Three replicas under random faults, and a check of everything that the README promises afterwards.

    python -m bench.chaos [--seconds 120] [--seed 7]

`plan` makes what people do and what breaks from a seed. `office` starts PostgreSQL, the local Slack and the replicas;
`people` and `troubles` carry the plan out. `history` holds the results as data, `checks` compares them with the
promises, and `report` prints the table and the verdict. The same seed makes the same plan, so a failing plan can be
repeated.
"""
