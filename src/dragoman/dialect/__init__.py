"""One folder a dialect: spelling (stateless, wire <-> vocabulary) and ledger (per connection). No I/O."""
