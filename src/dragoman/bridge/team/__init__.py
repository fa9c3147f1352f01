"""Several agents on one task: ask, tell, all, race, hand over; and a team as one agent."""
