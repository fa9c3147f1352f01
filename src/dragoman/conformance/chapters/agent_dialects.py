"""What only banjo, crow and 2025.1 ask of an agent."""

from __future__ import annotations

from dragoman.conformance.requirement import chapter, must

PLACE = 14
BANJO, CROW, Y2025, DRAFT = "banjo", "crow", "2025.1", "draft"

CHAPTER = chapter(
    "agent.dialect",
    "Banjo, crow and 2025.1",
    [
        must("01", "A new session tells its options, models and modes.", "reference 6.3 003-04", BANJO),
        must("02", "Models have ids and names, and the current one is among them.", "reference 5.4", BANJO),
        must("03", "session/set_model is answered with an empty object.", "reference 5.5", BANJO),
        must("04", "A change of model is told.", "reference 6.3 003-10", BANJO),
        must("05", "A mode may be named by the old member mode.", "reference 6.3 003-09", BANJO),
        must("06", "authenticate takes any params and gives an empty object.", "reference 6.3 003-03", BANJO),
        must("07", "Entries of a plan have an id, content and a status.", "reference 5.6", BANJO),
        must("08", "unstable_resumeSession is there.", "reference 6.3 003-01", BANJO),
        must("09", "A version that is not supported is refused with -32001.", "reference 6.3 003-18", BANJO),
        must("10", "The logins offered are a list, even if empty.", "reference 6.3 003-02", BANJO),
        must("11", "In the mode bypassPermissions nothing is asked.", "reference 6.3 003-14", BANJO),
        must("12", "In the mode plan nothing is written.", "reference 6.3 003-14, 6.4 004-47", BANJO, DRAFT),
        must("21", "The introduction tells capabilities in crow's words.", "reference 6.2 002-01", CROW),
        must("22", "Session ids are UUIDs.", "reference 6.2 002-11", CROW),
        must("23", "An update says its kind as @type.", "reference 6.2 002-03", CROW),
        must("24", "A piece of a message is text.", "reference 6.2 002-04", CROW),
        must("25", "A tool call starts with id, title, kind and status.", "reference 6.2 002-04", CROW),
        must("26", "A plan has entries with content, priority and status.", "reference 6.2 002-04", CROW),
        must("27", "cancel is a request, and is answered.", "reference 6.2 002-06", CROW),
        must(
            "28", "A question for leave has the tool call and options with id and title.", "reference 6.2 002-09", CROW
        ),
        must("29", "Wrong params are told one by one in data.errors.", "reference 6.2 002-12", CROW),
        must("30", "A thought is text.", "reference 6.2 002-04", CROW),
        must("31", "What is told of a tool call has its id and a status.", "reference 6.2 002-04", CROW),
        must("41", "The introduction tells who the agent is and what it can do.", "reference 6.0 000-07", Y2025),
        must("42", "Modes are told as a list of names.", "reference 6.0 000-07", Y2025),
        must("43", "A new session is answered with the status ok.", "reference 5.17", Y2025),
        must("44", "Updates name the session by the client's own id.", "reference 6.0 000-09", Y2025),
        must("45", "An update has a session, a type and data.", "reference 6.0 000-10", Y2025),
        must("46", "A piece of a message is text.", "reference 6.0 000-10", Y2025),
        must("47", "A tool call has an id, a name and arguments.", "reference 6.0 000-10", Y2025),
        must("48", "A plan has steps with a numbered id, a description and a status.", "reference 6.0 000-10", Y2025),
        must("49", "A second prompt while one is worked on is a wrong state.", "reference 6.0 000-18", Y2025),
        must("50", "A turn is answered with the status ok.", "reference 6.0 000-05", Y2025),
        must("51", "Files are asked for by absolute path, without a session.", "reference 6.0 000-11", Y2025),
        must("52", "A terminal is asked for with one command line and a folder.", "reference 6.0 000-12", Y2025),
        must("53", "A session id that is in use cannot be taken again.", "reference 5.14-2", Y2025),
        must("54", "A token is accepted where none is needed.", "reference 6.0 000-08", Y2025),
        must("55", "What is told of a tool call has its id.", "reference 6.0 000-10", Y2025),
        must("56", "MCP servers are taken with initialize, as url and credentials.", "reference 6.0 000-15", Y2025),
        must("57", "A thought is text.", "reference 6.0 000-10", Y2025),
        must("58", "A session can be loaded by its id, and that is answered with ok.", "reference 6.0 000-09", Y2025),
        must("59", "Resources and links are taken, flat as they lie there.", "reference 6.0 000-13", Y2025),
        must("60", "Pictures and sounds are taken where that is offered.", "reference 6.0 000-13, 000-14", Y2025),
        must("61", "A new session may begin in a mode that was told.", "reference 6.0 000-09", Y2025),
    ],
)
