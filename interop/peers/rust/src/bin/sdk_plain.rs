//! The shortest client one would write with the official Rust SDK: `sdk_plain AGENT ARG...`, one prompt, one answer.
//!
//! Text is drawn as in a real interface, in time that grows with its length. Ctrl-C cancels. py_plain.py and
//! ts_plain.mjs are the same client with the other SDKs; keep the three in step. Knows nothing of Dragoman.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    self, CancelNotification, ClientCapabilities, ContentBlock, ContentChunk, FileSystemCapabilities, Implementation,
    InitializeRequest, NewSessionRequest, PermissionOptionKind, PromptRequest, ReadTextFileRequest,
    ReadTextFileResponse, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionId, SessionNotification, SessionUpdate, WriteTextFileRequest,
    WriteTextFileResponse,
};
use agent_client_protocol::{AcpAgent, Agent, Client, Error, on_receive_notification, on_receive_request};

const CHARACTERS_PER_MILLISECOND: u64 = 2000;

#[tokio::main]
async fn main() {
    if let Err(error) = one_turn().await {
        eprintln!("the agent answered with an error: {error}");
        std::process::exit(1);
    }
}

async fn one_turn() -> Result<(), Error> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let asked = cancelled.clone();
    Client
        .v1()
        .name("plain")
        .on_receive_notification(
            async |told: SessionNotification, _| {
                if let SessionUpdate::AgentMessageChunk(ContentChunk { content: ContentBlock::Text(text), .. }) =
                    told.update
                {
                    tokio::time::sleep(Duration::from_millis(text.text.len() as u64 / CHARACTERS_PER_MILLISECOND))
                        .await;
                    print!("{}", text.text);
                    std::io::stdout().flush().map_err(Error::into_internal_error)?;
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                let allows = |kind| matches!(kind, PermissionOptionKind::AllowOnce | PermissionOptionKind::AllowAlways);
                let chosen = request.options.into_iter().find(|option| allows(option.kind));
                responder.respond(RequestPermissionResponse::new(match chosen {
                    Some(option) if !asked.load(Ordering::SeqCst) => {
                        RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.option_id))
                    }
                    _ => RequestPermissionOutcome::Cancelled,
                }))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async |request: ReadTextFileRequest, responder, _| responder.respond_with_result(read(request).await),
            on_receive_request!(),
        )
        .on_receive_request(
            async |request: WriteTextFileRequest, responder, _| {
                let written = tokio::fs::write(&request.path, &request.content).await;
                responder.respond_with_result(
                    written.map(|()| WriteTextFileResponse::new()).map_err(Error::into_internal_error),
                )
            },
            on_receive_request!(),
        )
        .connect_with(AcpAgent::from_args(std::env::args().skip(1))?, async |agent| prompt(agent, cancelled).await)
        .await
}

async fn prompt(agent: ConnectionTo<Agent>, cancelled: Arc<AtomicBool>) -> Result<(), Error> {
    let files = FileSystemCapabilities::new().read_text_file(true).write_text_file(true);
    let hello = InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(ClientCapabilities::new().fs(files))
        .client_info(Implementation::new("plain", "1.0"));
    agent.send_request(hello).block_task().await?;
    let here = std::env::current_dir().map_err(Error::into_internal_error)?;
    let session = agent.send_request(NewSessionRequest::new(here)).block_task().await?.session_id;
    let request = PromptRequest::new(session.clone(), vec!["Hello".into()]);
    let answered = agent.send_request(request).block_task();
    let answer = tokio::select! {
        answer = answered => answer?,
        () = interrupted(&agent, session, &cancelled) => return Err(Error::request_cancelled()),
    };
    eprintln!("the turn ended: {:?}", answer.stop_reason);
    Ok(())
}

/// Ctrl-C cancels the turn; the second one ends everything.
async fn interrupted(agent: &ConnectionTo<Agent>, session: SessionId, cancelled: &AtomicBool) {
    while tokio::signal::ctrl_c().await.is_ok() && !cancelled.swap(true, Ordering::SeqCst) {
        let _ = agent.send_notification(CancelNotification::new(session.clone()));
    }
}

async fn read(request: ReadTextFileRequest) -> Result<ReadTextFileResponse, Error> {
    let Ok(text) = tokio::fs::read_to_string(&request.path).await else {
        return Err(schema::Error::resource_not_found(Some(shown(&request.path))).into());
    };
    if request.line.is_none() && request.limit.is_none() {
        return Ok(ReadTextFileResponse::new(text));
    }
    let start = request.line.unwrap_or(1).saturating_sub(1) as usize;
    let limit = request.limit.map_or(usize::MAX, |limit| limit as usize);
    let lines: Vec<&str> = text.split('\n').skip(start).take(limit).collect();
    Ok(ReadTextFileResponse::new(lines.join("\n")))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
