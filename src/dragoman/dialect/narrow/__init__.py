"""Updates and questions of agents that have more to tell than a client can be told, in a form that it has."""
