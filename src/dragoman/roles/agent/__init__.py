"""Agent: serve clients, open sessions, run turns."""
