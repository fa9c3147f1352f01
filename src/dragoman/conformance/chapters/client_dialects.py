"""What only banjo, crow and 2025.1 ask of a client."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must, should

PLACE = 12
BANJO, CROW, Y2025 = "banjo", "crow", "2025.1"
FILES, WRITING, TERMINALS = "client.fs.readTextFile", "client.fs.writeTextFile", "client.terminal"

CHAPTER = chapter(
    "client.dialect",
    "Banjo, crow and 2025.1",
    [
        must("01", "initialize tells who the client is and what it offers.", "reference 6.3 003-02", BANJO),
        must("02", "A change of model is borne.", "reference 6.3 003-10", BANJO),
        must("03", "A turn may end with auth_required.", "reference 6.3 003-07", BANJO),
        must("05", "An agent that refuses the version is left, and no session opened.", "reference 6.3 003-18", BANJO),
        must("04", "Entries of a plan may have an id and no priority.", "reference 5.6", BANJO),
        must("21", "initialize is spelled with underscores.", "reference 6.2 002-01", CROW),
        must("22", "A session is asked for with cwd and mcpServers.", "reference 6.2 002-02", CROW),
        must("23", "A question for leave is answered with permission_response.", "reference 6.2 002-09", CROW),
        must("24", "The answer to a question is one of its options.", "reference 6.2 002-09", CROW),
        must("25", "cancel is a request.", "reference 6.2 002-06", CROW),
        must("26", "Thoughts, tool calls and plans in crow's words are borne.", "reference 6.2 002-04", CROW),
        must("41", "The version is the string 2025.1.", "reference 6.0 000-07", Y2025),
        must("42", "initialize tells the working directory, absolute.", "reference 6.0 000-07", Y2025),
        must("43", "initialize lists the MCP servers, if none.", "reference 6.0 000-07", Y2025),
        must("44", "The client chooses the id of its session.", "reference 6.0 000-09", Y2025),
        must("45", "A prompt has content.", "reference 6.0 000-09", Y2025),
        must("46", "An answer of nothing but the status ok ends the turn.", "reference 6.0 000-05", Y2025),
        must("47", "A terminal takes one line for the shell.", "reference 6.0 000-12", Y2025, needs=TERMINALS),
        must("48", "A terminal is known by its terminal_id.", "reference 6.0 000-12", Y2025, needs=TERMINALS),
        must("49", "Tool calls and plans in the words of 2025.1 are borne.", "reference 6.0 000-10", Y2025),
        must("50", "The introduction may have no version in it.", "reference 5.14-1", Y2025),
        must("51", "A write is answered with the status ok.", "reference 6.0 000-05", Y2025, needs=WRITING),
        must("52", "A file that is not there is refused with -32001.", "reference 6.0 000-06", Y2025, needs=FILES),
        should("53", "A file out of the folder is refused with -32002.", "reference 6.0 000-06", Y2025, needs=FILES),
        must(
            "54", "What is not lent is refused with -32004.", "reference 6.0 000-06, 000-14", Y2025, needs=f"!{FILES}"
        ),
        must("55", "A command is killed by its terminal_id.", "reference 6.0 000-12", Y2025, needs=TERMINALS),
    ],
)
