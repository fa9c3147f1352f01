"""The `draft` dialect (docs/protocol/draft.md): camelCase, with its own frames, results and permission scopes."""
