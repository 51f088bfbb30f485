"""Everything that looks at a run and changes nothing: `status`, `top`, `show`, `doctor`, `load` and `follow`.

`run` says where a run stands (`run.summary.read_status`, `run.watch.RunWatch`), `records` shows its records and
versions (`records.lookup.read_record`, `records.annotated_ledger.read_annotated_ledger`), `versions` reads its models
for Python, and `doctor` examines a Kafka.

It may import `training` and every room below it, and borrows the checks of `consumers` to explain what they do with a
record. Code that writes a record, joins a group or starts a process belongs into `runs` or `launch`, code that draws a
screen into `cli`.
"""
