"""The results of a check as text, JSON, JUnit and HTML, and compared with a baseline."""
