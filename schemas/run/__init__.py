"""The frozen settings of a run, as `RunStart` records them.

Entry points: `config.RunConfig`, and `config_json`, its canonical JSON. Each topic of settings is a class of its own
(`consistency`, `schedule`, `local_work`, `data`), whose annotated fields declare a setting once: see `setting`.

May import ``schemas`` and ``errors``. Never here: settings that a run does not freeze, or where a value comes from.
"""
