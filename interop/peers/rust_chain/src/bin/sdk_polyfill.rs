//! The official proxy that serves MCP-over-ACP servers to an agent over HTTP.

use agent_client_protocol::{ConnectTo, Error, Stdio};
use agent_client_protocol_polyfill::mcp_over_acp::McpOverAcpPolyfill;

#[tokio::main]
async fn main() -> Result<(), Error> {
    McpOverAcpPolyfill::http().connect_to(Stdio::new()).await
}
