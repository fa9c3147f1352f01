"""Permission: policy, grants, the user and the audit log, for each use of the workspace."""
