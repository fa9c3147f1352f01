"""The table of what is measured: jobs (what is run) and rows (which of its figures is shown, with targets).

run.py walks it, table.py prints it, README.md explains it. A job runs once per kind and measurement; several
rows may show figures of one job. Ratios are always ours over theirs: rates want more than 1, costs less.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

PEERS = ("py", "ts", "rust")
KINDS = (*PEERS, "ours")
SCRIPTED = ("py", "ts", "ours")  # those that are imported, and those whose servers are measured

Way = Literal[
    "peers",
    "v2",
    "remote",
    "translate",
    "interpret",
    "start",
    "import",
    "guard",
    "lsp",
    "mcp",
    "inspect",
    "latency",
    "opening",
    "store",
    "command",
    "registry",
    "tui",
    "host",
    "chain",
    "fleet",
    "engine",
    "scale",
    "web",
]


@dataclass(frozen=True)
class Job:
    """One thing to run: `way` says how, `work` is what the client does."""

    name: str
    way: Way
    work: dict[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = KINDS


@dataclass(frozen=True)
class Target:
    """Our figure against another: `factor` times theirs, or the figure itself when `of` is "ours"."""

    of: Literal["py", "ts", "rust", "ours"]
    at: Literal["least", "most"]
    factor: float

    def __str__(self) -> str:
        sign = ">=" if self.at == "least" else "<="
        unit = "" if self.of == "ours" else f"x {self.of}"
        return f"{sign} {self.factor:g}{unit}"

    def is_met(self, ours: float, theirs: float) -> bool:
        """Whether our figure reaches it; `theirs` is ignored by a target on our figure alone."""
        limit = self.factor if self.of == "ours" else self.factor * theirs
        return ours >= limit if self.at == "least" else ours <= limit


@dataclass(frozen=True)
class Row:
    """One line of the table: a figure of a job."""

    title: str
    job: str
    figure: str
    unit: str
    targets: tuple[Target, ...] = ()
    compared: bool = True
    against: str = ""  # the job whose figures stand in the columns of the others, when it is another one


CHAIN = {"count": 50_000, "pings": 1_000}
# Engines of a fleet, next to SQLite: PostgreSQL, the same with a synchronous standby, three NATS servers. For each, how
# many times as fast as SQLite it should append: alone, 256 sessions at once, and 64 with 8 entries each.
ENGINES = {"postgres": (0.5, 3, 2), "standby": (0.2, 1.5, 1.5), "nats": (0.67, 1, 1.5)}

STREAM = {"work": "stream", "count": 50_000}
FILES = {"work": "files", "count": 5_000, "inflight": 1}

JOBS = (
    Job("stream", "peers", STREAM),
    Job("stream-v2", "v2", STREAM | {"version": 2}, kinds=("py", "ours")),
    Job("remote-ws", "remote", STREAM | {"over": "ws"}, kinds=SCRIPTED),
    Job("remote-http", "remote", STREAM | {"over": "http"}, kinds=SCRIPTED),
    *(
        Job(f"host-{clients}", "host", {"work": "fan-out", "clients": clients, "count": count}, kinds=("ours",))
        for clients, count in ((1, 50_000), (10, 100_000), (100, 200_000), (1_000, 400_000))
    ),
    Job("host-idle", "host", {"work": "idle", "count": 1_000}, kinds=("ours",)),
    Job("host-latency", "host", {"work": "latency", "count": 1_000}, kinds=("ours",)),
    Job("fleet-turn", "fleet", {"work": "turn", "count": 400}, kinds=("ours",)),
    Job("fleet-told", "fleet", {"work": "told", "clients": 1_000, "count": 200_000}, kinds=("ours",)),
    Job("translate", "translate", STREAM, kinds=("ours",)),
    Job("interpret", "interpret", STREAM | {"metered": False, "dialect": "draft"}, kinds=("ours",)),
    Job("interpret-v2", "interpret", STREAM | {"metered": False, "dialect": "v2"}, kinds=("ours",)),
    Job("interpret-v1", "interpret", STREAM | {"metered": False, "dialect": "v1", "version": 2}, kinds=("ours",)),
    Job("inspect", "inspect", STREAM, kinds=("ours",)),
    *(Job(f"chain-{n}", "chain", CHAIN | {"proxies": n}, kinds=("rust", "ours")) for n in (1, 3, 5)),
    *(Job(f"chain-in-{n}", "chain", CHAIN | {"proxies": n, "in_process": True}, kinds=("ours",)) for n in (1, 3, 5)),
    Job("inspect-latency", "latency", {"count": 10_000}, kinds=("ours",)),
    Job("inspect-stats", "opening", {"count": 1_000_000}, kinds=("ours",)),
    Job("ask", "peers", FILES),
    Job("ask-file", "peers", FILES | {"path": "README.md"}),
    Job("posts", "remote", FILES | {"over": "http", "count": 1_000}, kinds=("ours",)),
    Job("posts-64", "remote", FILES | {"over": "http", "count": 1_000, "inflight": 64}, kinds=("ours",)),
    Job("policy", "guard", {"work": "decisions", "count": 50_000}, kinds=("ours",)),
    Job("audit", "guard", {"work": "audit", "count": 2_000}, kinds=("ours",)),
    Job("workspace", "guard", {"work": "files", "count": 2_000}, kinds=("ours",)),
    Job("coordination", "guard", {"work": "coordination", "count": 1_000}, kinds=("ours",)),
    Job("mcp", "mcp", {"work": "mcp", "count": 500}, kinds=("ours",)),
    Job("diagnostics", "lsp", {"work": "diagnostics", "count": 100}, kinds=("ours",)),
    Job("appends", "store", {"work": "appends", "count": 40_000}, kinds=("ours",)),
    Job("growth", "store", {"work": "growth", "count": 1_000_000}, kinds=("ours",)),
    Job("scale-sessions", "scale", {"work": "sessions", "count": 1_000}, kinds=("ours",)),
    Job("scale-entries", "scale", {"work": "entries", "count": 100_000}, kinds=("ours",)),
    Job("load", "store", {"work": "load", "count": 10_000}, kinds=("ours",)),
    *(
        Job(f"{engine}-appends", "engine", {"work": "appends", "engine": engine, "count": 2000}, kinds=("ours",))
        for engine in ENGINES
    ),
    *(
        Job(f"{engine}-load", "engine", {"work": "load", "engine": engine, "count": 10_000}, kinds=("ours",))
        for engine in ("postgres", "nats")
    ),
    Job("nats-publish", "engine", {"work": "publishing", "engine": "nats", "count": 5_000}, kinds=("ours",)),
    Job("postgres-index", "engine", {"work": "listing", "engine": "postgres", "count": 1_000_000}, kinds=("ours",)),
    Job("flight", "peers", {"work": "files", "count": 20_000, "inflight": 64}),
    Job("sessions", "peers", {"work": "sessions", "count": 1_000, "updates": 20}),
    Job("start", "start"),
    Job("run", "command", {"starts": 5}, kinds=("ours",)),
    Job("tui-start", "tui", {"work": "start", "starts": 5}, kinds=("ours",)),
    Job("tui-stream", "tui", {"work": "stream", "count": 60}, kinds=("ours",)),
    Job("tui-message", "tui", {"work": "message", "count": 10_000}, kinds=("ours",)),
    Job("word", "registry", {"work": "start", "count": 5}, kinds=("ours",)),
    Job("search", "registry", {"work": "search", "count": 10}, kinds=("ours",)),
    Job("install", "registry", {"work": "install", "count": 3}, kinds=("ours",)),
    Job("install-pypi", "registry", {"work": "install-pypi", "count": 3}, kinds=("ours",)),
    Job("web-weight", "web", {"work": "weight"}, kinds=("ours",)),
    Job("web-paint", "web", {"work": "paint", "count": 10}, kinds=("ours",)),
    Job("web-stream", "web", {"work": "stream", "count": 60}, kinds=("ours",)),
    Job("web-long", "web", {"work": "long", "count": 10_000}, kinds=("ours",)),
    Job("import", "import", kinds=SCRIPTED),
    Job("document-8", "peers", {"work": "document", "size": 8_000_000}),
    Job("document-60", "peers", {"work": "document", "size": 60_000_000}),
)


def _least(py: float, ts: float | None = None) -> tuple[Target, ...]:
    return (Target("py", "least", py),) + ((Target("ts", "least", ts),) if ts else ())


def _most(py: float, ts: float | None = None) -> tuple[Target, ...]:
    return (Target("py", "most", py),) + ((Target("ts", "most", ts),) if ts else ())


FOUR_TIMES = (Target("ours", "most", 4.0),)
TIMES = "x message"
HALF = (Target("ours", "least", 0.5),)
FLAT = (Target("ours", "most", 1.2),)
LEVEL = (Target("ours", "most", 1.15),)

ROWS = (
    Row("50,000 chunk updates", "stream", "messages_per_second", "messages/s", _least(8, 6)),
    Row("… agent CPU per message", "stream", "agent_cpu_us", "µs", _most(1 / 8)),
    Row("… client CPU per message", "stream", "client_cpu_us", "µs", _most(1 / 8)),
    Row("… agent peak memory", "stream", "agent_peak_mb", "MiB", _most(0.7)),
    Row("… client peak memory", "stream", "client_peak_mb", "MiB", _most(0.7)),
    Row("50,000 chunk updates, both in v2", "stream-v2", "messages_per_second", "messages/s", _least(8)),
    Row("… agent CPU per message", "stream-v2", "agent_cpu_us", "µs"),
    Row("… client CPU per message", "stream-v2", "client_cpu_us", "µs"),
    Row("50,000 over WebSocket, one a frame", "remote-ws", "messages_per_second", "messages/s", _least(3, 1)),
    Row("… server CPU per message", "remote-ws", "agent_cpu_us", "µs"),
    Row("… client CPU per message", "remote-ws", "client_cpu_us", "µs"),
    Row("50,000 over HTTP and SSE", "remote-http", "messages_per_second", "messages/s", _least(12, 6)),
    Row("… server CPU per message", "remote-http", "agent_cpu_us", "µs"),
    Row("… client CPU per message", "remote-http", "client_cpu_us", "µs"),
    *(
        Row(f"host, one session told to {clients:,}", f"host-{clients}", "delivered_per_second", "messages/s")
        for clients in (1, 10, 100, 1_000)
    ),
    Row("… host CPU per message, of 1,000", "host-1000", "host_cpu_us", "µs"),
    Row("… host memory for an idle client", "host-1000", "client_kb", "KiB"),
    Row("… for an idle session, of 1,000", "host-idle", "session_kb", "KiB"),
    Row("a short turn on stdio, p50", "host-latency", "direct_p50_us", "µs"),
    Row("… p99", "host-latency", "direct_p99_us", "µs"),
    Row("… the host adds, kept on the disk, p50", "host-latency", "full_p50_us", "µs"),
    Row("… p99", "host-latency", "full_p99_us", "µs"),
    Row("… the host adds, kept in memory, p50", "host-latency", "memory_p50_us", "µs"),
    Row("… p99", "host-latency", "memory_p99_us", "µs"),
    Row("a short turn at its own node of a fleet, p50", "fleet-turn", "owned_p50_us", "µs"),
    Row("… through another node, p50", "fleet-turn", "relayed_p50_us", "µs"),
    Row("… as a ratio, at most 1.2", "fleet-turn", "ratio", ""),
    Row("one session told to 1,000 by one node", "fleet-told", "one_node_per_second", "messages/s"),
    Row("… by three nodes", "fleet-told", "three_nodes_per_second", "messages/s"),
    Row(
        "50,000 through translate, one dialect",
        "translate",
        "messages_per_second",
        "messages/s",
        _least(3),
        against="stream",
    ),
    Row(
        "50,000 through translate, v1 and draft",
        "interpret",
        "messages_per_second",
        "messages/s",
        _least(1),
        against="stream",
    ),
    *(
        Row(
            f"50,000 through translate, a {client} client and a {agent} agent",
            f"interpret-{agent}",
            "messages_per_second",
            "messages/s",
            _least(2),
            against="stream",
        )
        for client, agent in (("v1", "v2"), ("v2", "v1"))
    ),
    Row(
        "50,000 through inspect run",
        "inspect",
        "messages_per_second",
        "messages/s",
        _least(3),
        against="stream",
    ),
    *(
        row
        for n in (1, 3, 5)
        for row in (
            Row(
                f"50,000 through a chain of {n}, processes",
                f"chain-{n}",
                "messages_per_second",
                "messages/s",
                (Target("rust", "least", 1),),
            ),
            Row("… what it adds to a message", f"chain-{n}", "added_us", "µs"),
            Row(
                f"50,000 through a chain of {n}, in the conductor",
                f"chain-in-{n}",
                "messages_per_second",
                "messages/s",
                (Target("rust", "least", 1),),
                against=f"chain-{n}",
            ),
            Row("… what it adds to a message", f"chain-in-{n}", "added_us", "µs", against=f"chain-{n}"),
        )
    ),
    Row("inspect run adds to a message, p50", "inspect-latency", "added_us", "µs", (Target("ours", "most", 100),)),
    Row("… p99", "inspect-latency", "added_p99_us", "µs"),
    Row("stats of 1,000,000 frames", "inspect-stats", "stats_s", "s"),
    Row("… as a part of json.loads of the lines", "inspect-stats", "ratio", "x", (Target("ours", "most", 0.5),)),
    Row("5,000 requests one by one, p50", "ask", "p50_us", "µs", _most(0.7)),
    Row("… answered from a real file, p50", "ask-file", "p50_us", "µs", compared=False),
    Row(
        "requests over HTTP answered by POST, one by one, p50", "posts", "p50_us", "µs", (Target("ours", "most", 600),)
    ),
    Row("… 64 in flight", "posts-64", "requests_per_second", "requests/s", (Target("ours", "least", 2_000),)),
    Row(
        "policy decisions, ten rules and four grants",
        "policy",
        "per_second",
        "decisions/s",
        (Target("ours", "least", 200_000),),
    ),
    Row("audit of one operation, on the disk", "audit", "durable_us", "µs"),
    Row("… not forced to the disk", "audit", "written_us", "µs"),
    Row("a file read through the workspace, p50", "workspace", "read_us", "µs"),
    Row("… written, p50", "workspace", "write_us", "µs"),
    Row("… read under policy and audit, p50", "workspace", "guarded_read_us", "µs"),
    Row("… written under policy and audit, p50", "workspace", "guarded_write_us", "µs"),
    Row(
        "… a lease and a compare add to that, as a part",
        "coordination",
        "added_ratio",
        "",
        (Target("ours", "most", 0.15),),
    ),
    Row("an MCP tool call by the bare SDK client, p50", "mcp", "bare_us", "µs"),
    Row("… through an agent, against that", "mcp", "call_ratio", "", (Target("ours", "most", 1.3),)),
    Row("session/new with four MCP servers that start in 0.2 to 0.8 s", "mcp", "four_ms", "ms"),
    Row("… against the slowest alone", "mcp", "four_ratio", "", (Target("ours", "most", 1.3),)),
    Row("diagnostics of an edit, ruff and ty themselves, p50", "diagnostics", "own_ms", "ms"),
    Row("… a write of an agent adds, p50", "diagnostics", "added_ms", "ms", (Target("ours", "most", 50),)),
    Row("durable appends, 1 session, 256 at a time", "appends", "one_per_second", "entries/s"),
    Row("… against a plain loop of inserts", "appends", "one_ratio", "x", HALF),
    Row("durable appends, 64 sessions, 256 at a time", "appends", "many_per_second", "entries/s"),
    Row("… against a plain loop of inserts", "appends", "many_ratio", "x", HALF),
    Row("… one by one, against commits of 64 rows", "appends", "many_single_ratio", "x", HALF),
    Row("an append at 1,000,000 entries, against 1,000", "growth", "append_growth", "x", FLAT),
    Row("a read at 1,000,000 entries, against 1,000", "growth", "read_growth", "x", FLAT),
    Row(
        "an update among 1,000 sessions of a connection, CPU, against 1", "scale-sessions", "direct_growth", "x", LEVEL
    ),
    Row("… of a host", "scale-sessions", "host_growth", "x", LEVEL),
    Row("an update at 100,000 entries of a session, CPU, against 10", "scale-entries", "entry_growth", "x", LEVEL),
    *(
        Row(f"{engine}: {what}, against SQLite", f"{engine}-appends", figure, "x", (Target("ours", "least", factor),))
        for engine, factors in ENGINES.items()
        for (what, figure), factor in zip(
            (
                ("an append alone", "of_1_ratio"),
                ("appends of one entry by 256 sessions", "of_256_ratio"),
                ("appends of 8 entries by 64 sessions", "8_of_64_ratio"),
            ),
            factors,
            strict=True,
        )
    ),
    *(
        Row(
            f"{engine}: 10,000 entries read, CPU against SQLite",
            f"{engine}-load",
            "load_cpu_ratio",
            "x",
            (Target("ours", "most", 1.5),),
        )
        for engine in ("postgres", "nats")
    ),
    Row(
        "nats: CPU of a stored message, against js.publish",
        "nats-publish",
        "publish_ratio",
        "x",
        (Target("ours", "most", 0.4),),
    ),
    Row("postgres: a user's list among 1,000,000 sessions, against 1,000", "postgres-index", "list_growth", "x"),
    Row("postgres: a name among 1,000,000 sessions, against 1,000", "postgres-index", "name_growth", "x"),
    Row("postgres: the owner of a session among 1,000,000, against 1,000", "postgres-index", "wake_growth", "x"),
    Row("session/load of 10,000 entries after a restart", "load", "time_ms", "ms"),
    Row("20,000 requests, 64 in flight", "flight", "requests_per_second", "requests/s", _least(2.2)),
    Row("1,000 sessions, a prompt and 20 updates each", "sessions", "time_ms", "ms", _most(1 / 5)),
    Row("start to initialize answer", "start", "time_ms", "ms", _most(0.3, 1)),
    Row("dragoman run, one prompt, whole processes", "run", "run_ms", "ms"),
    Row("… more than a bare client", "run", "added_ms", "ms"),
    Row("… of that, for keeping the session", "run", "store_ms", "ms"),
    Row("dragoman tui, CPU until the prompt", "tui-start", "tui_ms", "ms"),
    Row("… over dragoman chat", "tui-start", "ratio", "x", (Target("ours", "most", 1.5),)),
    Row("tui, 200 chunks/s, of one core", "tui-stream", "core_percent", "%", (Target("ours", "most", 30),)),
    Row("tui, one more message at 10,000, CPU", "tui-message", "many_ms", "ms", (Target("ours", "most", 20),)),
    Row("… over the same at 100", "tui-message", "ratio", "x"),
    Row("dragoman run of an agent by its word", "word", "word_ms", "ms"),
    Row("… less 100 ms, over its program with a bare client", "word", "ratio", "x", (Target("ours", "most", 1.1),)),
    Row("the web page, all files gzipped", "web-weight", "weight_kb", "KB", (Target("ours", "most", 250),)),
    Row("the web page, first paint on loopback", "web-paint", "paint_ms", "ms"),
    Row("… over opencode's, in turns", "web-paint", "ratio", "x", (Target("ours", "most", 0.25),)),
    Row("the web page, 200 chunks/s, of one core", "web-stream", "core_percent", "%", (Target("ours", "most", 25),)),
    Row("… its longest frame meanwhile", "web-stream", "longest_frame_ms", "ms", (Target("ours", "most", 50),)),
    Row(
        "the web page, 10,000 messages, opened",
        "web-long",
        "open_ms",
        "ms",
        (Target("ours", "most", 1000),),
    ),
    Row("… one frame while they scroll", "web-long", "frame_ms", "ms", (Target("ours", "most", 17),)),
    Row("… the work in such a frame, CPU", "web-long", "frame_cpu_ms", "ms"),
    Row("… memory of the page's process then", "web-long", "memory_mb", "MB", (Target("ours", "most", 150),)),
    Row("dragoman agents search, a new process", "search", "search_ms", "ms", (Target("ours", "most", 150),)),
    Row("install of a cached npm agent by its word", "install", "install_s", "s"),
    Row("… over npm alone", "install", "ratio", "x", (Target("ours", "most", 1.2),)),
    Row("install of a cached npm agent by its lock", "install", "lock_s", "s"),
    Row("… over npm alone", "install", "lock_ratio", "x", (Target("ours", "most", 1.2),)),
    Row("install of a cached PyPI package by its word", "install-pypi", "install_s", "s"),
    Row("… over uv alone, with copies and bytecode too", "install-pypi", "ratio", "x", (Target("ours", "most", 1.2),)),
    Row("import, the whole process", "import", "total_ms", "ms", _most(0.25)),
    Row("… less the bare interpreter", "import", "net_ms", "ms"),
    Row("… with the names a program uses", "import", "uses_ms", "ms"),
    Row("8 MB message", "document-8", "time_ms", "ms", _most(1)),
    Row("… agent memory", "document-8", "agent_growth", TIMES, FOUR_TIMES),
    Row("… client memory", "document-8", "client_growth", TIMES, FOUR_TIMES),
    Row("60 MB message", "document-60", "time_ms", "ms", _most(1)),
    Row("… agent memory", "document-60", "agent_growth", TIMES, FOUR_TIMES),
    Row("… client memory", "document-60", "client_growth", TIMES, FOUR_TIMES),
)


def smaller(job: Job) -> Job:
    """The same job with a tenth of the work, to see that it runs rather than how fast."""
    work = {name: value // 10 if name in ("count", "size") else value for name, value in job.work.items()}
    return Job(job.name, job.way, work, job.kinds)
