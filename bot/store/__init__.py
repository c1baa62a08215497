"""The bot's database: tables, and the transaction functions that read and change them.

A transaction locks its session first, then the confirmation. It lets `confirmation` compute the change, and saves all
of it. Begin with `repository.py`, then `transactions.py`.
"""
