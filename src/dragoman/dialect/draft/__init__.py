"""The `draft` dialect (seed 004): camelCase like v1, with its own frames, results and permission scopes."""
