"""One folder per dialect: a codec (stateless, wire <-> vocabulary) and an emulator (per connection). No I/O."""
