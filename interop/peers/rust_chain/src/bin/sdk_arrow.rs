//! A proxy of the official Rust SDK that puts `>` before each text chunk of the agent.

use agent_client_protocol::v1::schema::{ContentBlock, SessionNotification, SessionUpdate};
use agent_client_protocol::{Agent, Client, Error, Proxy, Stdio, on_receive_notification};

#[tokio::main]
async fn main() -> Result<(), Error> {
    Proxy
        .v1()
        .name("arrow")
        .on_receive_notification_from(
            Agent,
            async move |mut told: SessionNotification, connection| {
                if let SessionUpdate::AgentMessageChunk(chunk) = &mut told.update {
                    if let ContentBlock::Text(text) = &mut chunk.content {
                        text.text = format!(">{}", text.text);
                    }
                }
                connection.send_notification_to(Client, told)
            },
            on_receive_notification!(),
        )
        .connect_to(Stdio::new())
        .await
}
