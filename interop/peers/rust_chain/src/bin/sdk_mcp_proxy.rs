//! A proxy of the official Rust SDK that offers an MCP server with one tool, `echo`, to every session.

use agent_client_protocol::mcp_server::McpServer;
use agent_client_protocol::{Conductor, Error, Proxy, Stdio};
use agent_client_protocol_rmcp::rmcp_3::McpServerExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Given {
    /// What to send back
    message: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Returned {
    /// What was given
    result: String,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let tools = McpServer::<Conductor, _>::builder("rust-tools")
        .instructions("Tools of a Rust proxy")
        .tool_fn_mut(
            "echo",
            "Sends a message back",
            async |given: Given, _| Ok(Returned { result: format!("rust echo: {}", given.message) }),
            agent_client_protocol::tool_fn_mut!(),
        )
        .build();
    Proxy.v1().name("mcp-proxy").with_mcp_server(tools).connect_to(Stdio::new()).await
}
