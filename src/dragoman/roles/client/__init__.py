"""Client: connect to an agent, open sessions, prompt, lend a workspace."""
