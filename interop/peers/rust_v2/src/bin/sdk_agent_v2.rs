//! An agent of protocol version 2 written with the official Rust SDK: it does what `[[...]]` in a prompt orders.
//!
//! Knows nothing of Dragoman. Sessions are files in its home, so that another process can load them. sdk_agent_v2.py
//! and sdk_agent_v2.mjs are the same agent with the other SDKs; keep the three in step.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_client_protocol::v2::{ConnectionTo, Responder, schema};
use agent_client_protocol::{Agent, Client, Error, Stdio, on_receive_notification, on_receive_request};
use base64::Engine;
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

const BEAT: Duration = Duration::from_millis(100);

#[derive(Clone, Default)]
struct Session {
    told: Vec<String>,
    stop: Arc<Notify>,
}

type Sessions = Arc<Mutex<HashMap<schema::SessionId, Session>>>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let sessions = Sessions::default();
    let (opening, resuming, closing) = (sessions.clone(), sessions.clone(), sessions.clone());
    let (prompting, cancelling) = (sessions.clone(), sessions);
    Agent
        .v2()
        .name("sdk-agent-v2")
        .on_receive_request(
            async |request: schema::InitializeRequest, responder: Responder<schema::InitializeResponse>, _| {
                let session = schema::SessionCapabilities::new();
                let info = schema::Implementation::new("official Rust SDK, v2", "5.0.0");
                responder.respond(
                    schema::InitializeResponse::new(request.protocol_version, info)
                        .capabilities(schema::AgentCapabilities::new().session(session)),
                )
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: schema::NewSessionRequest, responder: Responder<schema::NewSessionResponse>, _| {
                let id = schema::SessionId::new(Uuid::new_v4().simple().to_string());
                opening.lock().expect("no panic holds it").insert(id.clone(), Session::default());
                responder.respond(schema::NewSessionResponse::new(id))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async |_: schema::ListSessionsRequest, responder: Responder<schema::ListSessionsResponse>, _| {
                responder.respond(schema::ListSessionsResponse::new(Vec::new()))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: schema::CloseSessionRequest, responder: Responder<schema::CloseSessionResponse>, _| {
                stop(&closing, &request.session_id);
                responder.respond(schema::CloseSessionResponse::new())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: schema::ResumeSessionRequest,
                        responder: Responder<schema::ResumeSessionResponse>,
                        client: ConnectionTo<Client>| {
                let Ok(kept) = std::fs::read(file_of(&request.session_id)) else {
                    return responder.respond_with_error(not_found(&request.session_id));
                };
                let told: Vec<String> = serde_json::from_slice(&kept).map_err(Error::into_internal_error)?;
                let turn = Turn { client, session: request.session_id.clone(), told: told.clone() };
                for (number, text) in told.iter().enumerate().filter(|_| request.replay_from.is_some()) {
                    let id = format!("{}-{number}", request.session_id);
                    turn.tell("user_message", json!({"messageId": id, "content": [block(text)]}))?;
                }
                turn.tell("state_update", json!({"state": "idle"}))?;
                let session = Session { told, ..Session::default() };
                resuming.lock().expect("no panic holds it").insert(request.session_id, session);
                responder.respond(schema::ResumeSessionResponse::new())
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |told: schema::CancelSessionNotification, _| {
                stop(&cancelling, &told.session_id);
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: schema::PromptRequest,
                        responder: Responder<schema::PromptResponse>,
                        client: ConnectionTo<Client>| {
                let text = text_of(&request.prompt);
                let found = prompting.lock().expect("no panic holds it").get_mut(&request.session_id).map(|session| {
                    session.told.push(text.clone());
                    session.clone()
                });
                let Some(session) = found else {
                    return responder.respond_with_error(not_found(&request.session_id));
                };
                keep(&request.session_id, &session.told)?;
                let turn = Turn { client: client.clone(), session: request.session_id, told: session.told };
                let id = Uuid::new_v4().to_string();
                turn.tell("user_message", json!({"messageId": id, "content": [block(&text)]}))?;
                responder.respond(schema::PromptResponse::new(id))?;
                // A handler holds the dispatch loop, and a turn asks its client: it must run beside the loop.
                client.spawn(async move { turn.work(&text, &session.stop).await })
            },
            on_receive_request!(),
        )
        .connect_to(Stdio::new())
        .await
}

fn block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn text_of(prompt: &[schema::ContentBlock]) -> String {
    let text = |block: &schema::ContentBlock| match block {
        schema::ContentBlock::Text(text) => Some(text.text.clone()),
        _ => None,
    };
    prompt.iter().filter_map(text).collect()
}

fn not_found(session: &schema::SessionId) -> Error {
    schema::Error::session_not_found(session.clone()).into()
}

fn file_of(session: &schema::SessionId) -> PathBuf {
    PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join("sessions").join(format!("{session}.json"))
}

fn keep(session: &schema::SessionId, told: &[String]) -> Result<(), Error> {
    let file = file_of(session);
    std::fs::create_dir_all(file.parent().expect("it is in a folder")).map_err(Error::into_internal_error)?;
    std::fs::write(file, json!(told).to_string()).map_err(Error::into_internal_error)
}

fn stop(sessions: &Sessions, id: &schema::SessionId) {
    if let Some(session) = sessions.lock().expect("no panic holds it").get(id) {
        session.stop.notify_waiters();
    }
}

struct Turn {
    client: ConnectionTo<Client>,
    session: schema::SessionId,
    told: Vec<String>,
}

impl Turn {
    async fn work(&self, text: &str, stop: &Notify) -> Result<(), Error> {
        let stopped = stop.notified();
        tokio::pin!(stopped);
        stopped.as_mut().enable();
        self.tell("state_update", json!({"state": "running"}))?;
        let ended = tokio::select! {
            biased;
            () = stopped => json!({"state": "idle", "stopReason": "cancelled"}),
            done = self.obey(text) => match done {
                Ok(()) => json!({"state": "idle", "stopReason": "end_turn"}),
                Err(error) => json!({"state": "idle", "stopReason": "error", "error": error}),
            },
        };
        self.tell("state_update", ended)
    }

    async fn obey(&self, text: &str) -> Result<(), Error> {
        let order = text.split_once("[[").and_then(|(_, rest)| rest.split_once("]]")).map_or("", |(order, _)| order);
        match order.split_once(' ').unwrap_or((order, "")) {
            ("say", words) => self.say(words),
            ("slow", seconds) => self.dawdle(seconds.parse().unwrap_or(1)).await,
            ("write", rest) => self.write(rest).await,
            ("run", line) => self.run(line).await,
            ("recall", _) => self.say(&format!("Earlier I was told: {}", self.earlier())),
            _ => self.say("I was told nothing."),
        }
    }

    fn earlier(&self) -> String {
        self.told[..self.told.len() - 1].join("; ")
    }

    fn tell(&self, kind: &str, mut update: Value) -> Result<(), Error> {
        update["sessionUpdate"] = json!(kind);
        let update: schema::SessionUpdate = serde_json::from_value(update).map_err(Error::into_internal_error)?;
        self.client.send_notification(schema::UpdateSessionNotification::new(self.session.clone(), update))
    }

    fn say(&self, text: &str) -> Result<(), Error> {
        let id = format!("said-{}", self.told.len());
        for piece in text.split_inclusive(' ') {
            self.tell("agent_message_chunk", json!({"messageId": id, "content": block(piece)}))?;
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
        let given = json!({"path": path, "content": text});
        if !self.may("Write a file", "edit", given, json!([{"path": path}])).await? {
            return Ok(());
        }
        tokio::fs::write(path, text).await.map_err(Error::into_internal_error)?;
        self.tell("tool_call_update", json!({"toolCallId": "call", "status": "completed"}))?;
        self.say("Written.")
    }

    async fn run(&self, line: &str) -> Result<(), Error> {
        if !self.may(&format!("Run {line}"), "execute", json!({"command": line}), json!([])).await? {
            return Ok(());
        }
        let terminal = Uuid::new_v4().to_string();
        let content = json!([{"type": "terminal", "terminalId": terminal}]);
        self.tell("terminal_update", json!({"terminalId": terminal, "command": line}))?;
        let shown = json!({"toolCallId": "call", "status": "in_progress", "content": content});
        self.tell("tool_call_update", shown)?;
        let shell = tokio::process::Command::new("/bin/sh").args(["-c", line]).output().await;
        let ended = shell.map_err(Error::into_internal_error)?;
        let data = base64::engine::general_purpose::STANDARD.encode(&ended.stdout);
        self.tell("terminal_output_chunk", json!({"terminalId": terminal, "data": data}))?;
        let code = ended.status.code();
        self.tell("terminal_update", json!({"terminalId": terminal, "exitStatus": {"exitCode": code}}))?;
        self.tell("tool_call_update", json!({"toolCallId": "call", "status": "completed"}))?;
        self.say(&format!("It ended with exit code {}.", code.unwrap_or(-1)))
    }

    async fn may(&self, title: &str, kind: &str, given: Value, locations: Value) -> Result<bool, Error> {
        let mut call = json!({"toolCallId": "call", "title": title, "kind": kind, "rawInput": given});
        call["locations"] = locations;
        let question = json!({
            "sessionId": self.session,
            "title": title,
            "subject": {"type": "tool_call", "toolCall": call},
            "options": [
                {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
                {"optionId": "no", "name": "No", "kind": "reject_once"},
            ],
        });
        call["status"] = json!("pending");
        self.tell("tool_call_update", call)?;
        self.tell("state_update", json!({"state": "requires_action"}))?;
        let question: schema::RequestPermissionRequest =
            serde_json::from_value(question).map_err(Error::into_internal_error)?;
        let answer = self.client.send_request(question).block_task().await?.outcome;
        self.tell("state_update", json!({"state": "running"}))?;
        if json!(answer)["optionId"] == "yes" {
            return Ok(true);
        }
        self.tell("tool_call_update", json!({"toolCallId": "call", "status": "failed"}))?;
        self.say("I may not.")?;
        Ok(false)
    }
}
