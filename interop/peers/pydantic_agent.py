"""An agent of pydantic-ai behind pydantic-acp, for the matrix: two tools that need leave, and a model of OpenAI's kind.

Knows nothing of Dragoman.
"""

import os
import subprocess
from pathlib import Path

from pydantic_acp import AdapterConfig, FileSessionStore, __version__, run_acp
from pydantic_ai import Agent, Tool
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

TIMEOUT = 30  # seconds for a command

model = OpenAIChatModel(
    "fake-model", provider=OpenAIProvider(base_url=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
)


def write_file(path: str, content: str) -> str:
    """Write a text file."""
    Path(path).write_text(content)
    return "written"


def run_command(command: str) -> str:
    """Run a command in a shell."""
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=TIMEOUT)
    return f"exit code {ended.returncode}: {ended.stdout}"


agent = Agent(model, tools=[Tool(tool, requires_approval=True) for tool in (write_file, run_command)])
run_acp(
    agent,
    config=AdapterConfig(
        agent_name="pydantic-acp",
        agent_version=__version__,
        session_store=FileSessionStore(Path(os.environ["HOME"]) / "sessions"),
    ),
)
