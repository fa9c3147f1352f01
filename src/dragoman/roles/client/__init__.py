"""Client: connect to an agent, open sessions, prompt, give access to a workspace."""
