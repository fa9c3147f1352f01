//! The measured client written with the official Rust SDK: `client SPECIFICATION AGENT ARG...`.
//!
//! Updates come to a handler of the connection, as in the SDK's own example of a client. Its `ActiveSession` would hand
//! them over session by session, but asks every open session about every update: a thousand of them take many times
//! as long.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ClientCapabilities, ContentBlock, ContentChunk, FileSystemCapabilities, InitializeRequest, NewSessionRequest,
    PromptRequest, ReadTextFileRequest, ReadTextFileResponse, SessionId, SessionNotification, SessionUpdate,
    StopReason,
};
use agent_client_protocol::{
    AcpAgent, AcpAgentConfig, Agent, Client, Error, on_receive_notification, on_receive_request,
};
use bench_peers::Fault;
use bench_peers::drive::{self, Take};
use bench_peers::texts::ANSWER;
use serde_json::Value;

type Takes = Arc<Mutex<HashMap<SessionId, Take>>>;

struct Editor {
    agent: ConnectionTo<Agent>,
    cwd: String,
    takes: Takes,
}

impl drive::Client for Editor {
    type Session = SessionId;

    async fn open(&self) -> Result<SessionId, Fault> {
        Ok(self.agent.send_request(NewSessionRequest::new(&self.cwd)).block_task().await?.session_id)
    }

    async fn prompt(&self, session: &SessionId, text: &str, take: Take) -> Result<(), Fault> {
        self.takes.lock().unwrap().insert(session.clone(), take);
        let request = PromptRequest::new(session.clone(), vec![text.to_string().into()]);
        let reason = self.agent.send_request(request).block_task().await?.stop_reason;
        if reason == StopReason::EndTurn { Ok(()) } else { Err(format!("{text} stopped with {reason:?}").into()) }
    }
}

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let specification: Value = serde_json::from_str(&words[0])?;
    let real = specification["path"].is_string();
    let command = AcpAgentConfig::new(&words[1]).args(&words[2..]);
    let takes = Takes::default();
    let taking = takes.clone();
    Client
        .v1()
        .name("bench")
        .on_receive_notification(
            async move |told: SessionNotification, _| {
                if let SessionUpdate::AgentMessageChunk(ContentChunk { content: ContentBlock::Text(text), .. }) =
                    told.update
                {
                    let mut takes = taking.lock().unwrap();
                    let take = takes.get_mut(&told.session_id).ok_or_else(Error::invalid_params)?;
                    // An error of a handler would only be logged.
                    take(text.text).unwrap_or_else(|fault| panic!("{fault}"));
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: ReadTextFileRequest, responder, _| {
                let text = if real { std::fs::read_to_string(&request.path) } else { Ok(ANSWER.to_string()) };
                responder.respond_with_result(text.map(ReadTextFileResponse::new).map_err(Error::into_internal_error))
            },
            on_receive_request!(),
        )
        .connect_with(AcpAgent::new(command), async |agent: ConnectionTo<Agent>| {
            let files = FileSystemCapabilities::new().read_text_file(true);
            let hello =
                InitializeRequest::new(ProtocolVersion::V1).client_capabilities(ClientCapabilities::new().fs(files));
            agent.send_request(hello).block_task().await?;
            let cwd = specification["cwd"].as_str().unwrap_or("/").to_string();
            match drive::drive(&specification, &Editor { agent, cwd, takes }).await {
                Ok(figures) => Ok(println!("{figures}")),
                Err(fault) => Err(Error::internal_error().data(fault.to_string())),
            }
        })
        .await?;
    Ok(())
}
