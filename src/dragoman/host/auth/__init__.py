"""Who may use a host: tokens, OpenID Connect, the local owner, and roles in sessions."""
