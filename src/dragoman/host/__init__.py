"""The host: sessions that outlive their clients, and rooms in which several people share one."""
