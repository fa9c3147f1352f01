"""The store in NATS JetStream, for hosts on several machines: logs as subjects of streams, an index of records."""

from dragoman.store.nats.store import NatsStore as NatsStore
