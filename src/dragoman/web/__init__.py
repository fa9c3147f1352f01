"""The web page of a host: its files (assets/), and the cookie that takes the place of a token in a browser."""
