"""The whole bot in one process and virtual time, under faults that a seed chooses.

`power.txt` names the slips of `tests/mutants` that the storms are to find; `python -m tests.storms --power` tries them.
Slips about the same things that are not in it, and why:

- No promise is broken, since a second guard refuses the same: what ran may begin again; an outcome on what was denied;
  a younger vote first; two replicas count one vote; whoever asked approves (they spoke); a standing vote of somebody
  barred (it is looked at again); what starts is not compared, or was altered; a held call begins; what was approved
  may be changed; an approval for two starts; a call without a seal; a message that is put back (its run's mark); an
  answer in the mailbox twice; a run, or a message, where another process works; what is taken along is begun beside
  itself; a word about another attempt.
- Only slower, and made good soon: what comes while a job ends, or with its last transaction; a lease ends with its
  first job; a row put off though something happened, or beyond its deadline; a lost lease not noticed in the
  background; a task that is not started again.
- Nobody looks: what is carried is written twice or again; a post that could not connect, or may have come through (the
  next look finds it); the run-again vote of somebody barred; a heard line deleted.
- Storms have nothing of the kind: grants, notes, sign-ins, previews, streaming, guests and accounts of others, tools
  that fail or run in threads, servers that forget a session, processes that drain, the real start of a store.
"""
