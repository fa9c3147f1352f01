"""The host: agents and sessions that outlive their clients, and the rooms in which several people share one.

Takes clients from doors (any transport, and who is at its other end), gives each of them sessions as an agent would.
Below are the roles, which talk to agents, and the store, which keeps logs; above are commands.
"""
