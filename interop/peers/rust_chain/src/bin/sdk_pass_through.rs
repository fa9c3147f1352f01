//! A proxy of the official Rust SDK that changes nothing.

use agent_client_protocol::{Error, Proxy, Stdio};

#[tokio::main]
async fn main() -> Result<(), Error> {
    Proxy.v1().name("pass-through").connect_to(Stdio::new()).await
}
