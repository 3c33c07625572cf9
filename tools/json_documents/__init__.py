"""Every document that `--json` prints, declared once: each field, its type and its meaning.

docs/json.md and docs/json.schema.json are made from it. Verbs do not import this package: their
documents are compared with it by tests.
"""
