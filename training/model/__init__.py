"""Between torch and the run: a model as one flat float32 vector, gradients as another, an optimizer as a rule.

Entry points: `layout` (tensors to the vector and back), `gradients.collect_gradients`, `rule.rule_of`, and `problems`,
everything of a model that cannot be trained, by name.

May import ``rules``, ``schemas`` and `producers.deltas`. Never here: brokers, sessions, tasks, users' loops.
"""
