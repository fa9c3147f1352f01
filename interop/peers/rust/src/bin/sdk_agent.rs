//! An agent written with the official Rust SDK, to be checked: it does what `[[...]]` in a prompt orders.
//!
//! Knows nothing of Dragoman. sdk_agent.py and sdk_agent.mjs are the same agent with the other SDKs, which also keep
//! their sessions; this one says, writes and dawdles.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    self, CancelNotification, ContentBlock, ContentChunk, Implementation, InitializeRequest, InitializeResponse,
    NewSessionRequest, NewSessionResponse, PermissionOption, PermissionOptionKind, PromptRequest, PromptResponse,
    RequestPermissionOutcome, RequestPermissionRequest, SessionId, SessionNotification, SessionUpdate, StopReason,
    ToolCall, ToolCallLocation, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind, WriteTextFileRequest,
};
use agent_client_protocol::{Agent, Client, Error, Stdio, on_receive_notification, on_receive_request};
use tokio::sync::Notify;

const BEAT: Duration = Duration::from_millis(100);

type Sessions = Arc<Mutex<HashMap<SessionId, Arc<Notify>>>>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let sessions = Sessions::default();
    let (opening, prompting, cancelling) = (sessions.clone(), sessions.clone(), sessions);
    let lent = Arc::new(AtomicBool::new(false));
    let (lending, calls) = (lent.clone(), Arc::new(AtomicUsize::new(0)));
    Agent
        .v1()
        .name("sdk-agent")
        .on_receive_request(
            async move |request: InitializeRequest, responder, _| {
                lending.store(request.client_capabilities.fs.write_text_file, Ordering::SeqCst);
                responder.respond(
                    InitializeResponse::new(request.protocol_version)
                        .agent_info(Implementation::new("official Rust SDK", "5.0.0")),
                )
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest, responder, _| {
                let id = {
                    let mut sessions = opening.lock().expect("no panic holds it");
                    let id = SessionId::new(format!("session-{}", sessions.len()));
                    sessions.insert(id.clone(), Arc::default());
                    id
                };
                responder.respond(NewSessionResponse::new(id))
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |told: CancelNotification, _| {
                if let Some(stop) = cancelling.lock().expect("no panic holds it").get(&told.session_id) {
                    stop.notify_waiters();
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, client: ConnectionTo<Client>| {
                let found = prompting.lock().expect("no panic holds it").get(&request.session_id).cloned();
                let Some(stop) = found else {
                    let unknown: Error = schema::Error::session_not_found(request.session_id).into();
                    return responder.respond_with_error(unknown);
                };
                // A handler holds the dispatch loop, and a turn asks its client: it must run beside the loop.
                let turn = Turn {
                    client: client.clone(),
                    session: request.session_id.clone(),
                    lent: lent.load(Ordering::SeqCst),
                    call: format!("call-{}", calls.fetch_add(1, Ordering::SeqCst)),
                };
                client.spawn(async move {
                    let stopped = stop.notified();
                    let reason = tokio::select! {
                        biased;
                        () = stopped => Ok(StopReason::Cancelled),
                        done = turn.obey(&request.prompt) => done.map(|()| StopReason::EndTurn),
                    };
                    responder.respond_with_result(reason.map(PromptResponse::new))
                })
            },
            on_receive_request!(),
        )
        .connect_to(Stdio::new())
        .await
}

struct Turn {
    client: ConnectionTo<Client>,
    session: SessionId,
    lent: bool,
    call: String,
}

impl Turn {
    async fn obey(&self, prompt: &[ContentBlock]) -> Result<(), Error> {
        let text: String = prompt
            .iter()
            .filter_map(|block| match block {
                ContentBlock::Text(text) => Some(text.text.as_str()),
                _ => None,
            })
            .collect();
        let order = text.split_once("[[").and_then(|(_, rest)| rest.split_once("]]")).map_or("", |(order, _)| order);
        match order.split_once(' ').unwrap_or((order, "")) {
            ("say", words) => self.say(words),
            ("slow", seconds) => self.dawdle(seconds.parse().unwrap_or(1)).await,
            ("write", rest) => self.write(rest).await,
            _ => self.say("I was told nothing."),
        }
    }

    fn tell(&self, update: SessionUpdate) -> Result<(), Error> {
        self.client.send_notification(SessionNotification::new(self.session.clone(), update))
    }

    fn say(&self, text: &str) -> Result<(), Error> {
        for piece in text.split_inclusive(' ') {
            self.tell(SessionUpdate::AgentMessageChunk(ContentChunk::new(piece.to_string().into())))?;
        }
        Ok(())
    }

    async fn dawdle(&self, seconds: u64) -> Result<(), Error> {
        for number in 0..seconds * 10 {
            self.say(&format!("{number} "))?;
            tokio::time::sleep(BEAT).await;
        }
        Ok(())
    }

    async fn write(&self, rest: &str) -> Result<(), Error> {
        let (path, text) = rest.split_once(' ').unwrap_or((rest, ""));
        if !self.may("Write a file", path).await? {
            self.ended(ToolCallStatus::Failed)?;
            return self.say("I may not.");
        }
        let written = if self.lent {
            let request = WriteTextFileRequest::new(self.session.clone(), path, text);
            self.client.send_request(request).block_task().await.is_ok()
        } else {
            tokio::fs::write(path, text).await.is_ok()
        };
        self.ended(if written { ToolCallStatus::Completed } else { ToolCallStatus::Failed })?;
        self.say(if written { "Written." } else { "I cannot." })
    }

    async fn may(&self, title: &str, path: &str) -> Result<bool, Error> {
        let given = serde_json::json!({ "path": path });
        let begun = ToolCall::new(self.call.clone(), title).kind(ToolKind::Edit).raw_input(given);
        self.tell(SessionUpdate::ToolCall(begun.locations(vec![ToolCallLocation::new(path)])))?;
        let fields = ToolCallUpdateFields::new().title(title.to_string()).kind(ToolKind::Edit);
        let call = ToolCallUpdate::new(self.call.clone(), fields);
        let options = vec![
            PermissionOption::new("yes", "Yes", PermissionOptionKind::AllowOnce),
            PermissionOption::new("no", "No", PermissionOptionKind::RejectOnce),
        ];
        let question = RequestPermissionRequest::new(self.session.clone(), call, options);
        let answer = self.client.send_request(question).block_task().await?.outcome;
        Ok(matches!(answer, RequestPermissionOutcome::Selected(chosen) if &*chosen.option_id.0 == "yes"))
    }

    fn ended(&self, status: ToolCallStatus) -> Result<(), Error> {
        let fields = ToolCallUpdateFields::new().status(status);
        self.tell(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(self.call.clone(), fields)))
    }
}
