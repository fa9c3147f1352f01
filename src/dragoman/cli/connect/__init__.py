"""How run, chat and demo open a session: flags, a local agent or a host, the record, one turn."""
