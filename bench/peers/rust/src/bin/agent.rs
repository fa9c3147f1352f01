//! The measured agent written with the official Rust SDK.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, Implementation, InitializeRequest, InitializeResponse, NewSessionRequest,
    NewSessionResponse, PromptRequest, PromptResponse, ReadTextFileRequest, SessionId, SessionNotification,
    SessionUpdate, StopReason,
};
use agent_client_protocol::{Agent, Client, Error, Stdio, on_receive_request};
use bench_peers::Fault;
use bench_peers::perform::{self, Performer};

struct Turn {
    client: ConnectionTo<Client>,
    session: SessionId,
}

impl perform::Client for Turn {
    async fn say(&self, text: String) -> Result<(), Fault> {
        let update = SessionUpdate::AgentMessageChunk(ContentChunk::new(text.into()));
        Ok(self.client.send_notification(SessionNotification::new(self.session.clone(), update))?)
    }

    async fn read(&self, path: String) -> Result<String, Fault> {
        let request = ReadTextFileRequest::new(self.session.clone(), path);
        Ok(self.client.send_request(request).block_task().await?.content)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let (performer, opened) = (Arc::new(Performer::default()), AtomicUsize::new(0));
    Agent
        .v1()
        .name("bench")
        .on_receive_request(
            async |_: InitializeRequest, responder, _| {
                let info = Implementation::new("bench", "1.0");
                responder.respond(InitializeResponse::new(ProtocolVersion::V1).agent_info(info))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest, responder, _| {
                let number = opened.fetch_add(1, Ordering::Relaxed);
                responder.respond(NewSessionResponse::new(format!("session-{number}")))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, client: ConnectionTo<Client>| {
                let turn = Turn { client: client.clone(), session: request.session_id };
                let performer = performer.clone();
                // A handler holds the dispatch loop, and the turn asks its client: it runs beside the loop.
                client.spawn(async move {
                    let text: String = request.prompt.iter().filter_map(spoken).collect();
                    let done = performer.perform(&text, &turn).await;
                    responder.respond_with_result(match done {
                        Ok(()) => Ok(PromptResponse::new(StopReason::EndTurn)),
                        Err(fault) => Err(Error::internal_error().data(fault.to_string())),
                    })
                })
            },
            on_receive_request!(),
        )
        .connect_to(Stdio::new())
        .await
}

fn spoken(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(text) => Some(&text.text),
        _ => None,
    }
}
