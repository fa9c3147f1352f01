//! A client of protocol version 2 written with the official Rust SDK. It starts the agent of its arguments, goes
//! through hello, permission requests, cancel and load, and prints what it saw as one JSON object.
//!
//! Knows nothing of Dragoman. tests/interop/peers/ts_client_v2.mjs and sdk_client_v2.py are the same client with the
//! other SDKs; keep the three in step.

use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v2::{ConnectionTo, Responder, schema};
use agent_client_protocol::{AcpAgent, Agent, Client, Error, on_receive_notification, on_receive_request};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// What the client is asked in a turn, and the kind of option that it chooses.
#[derive(Default)]
struct Questions {
    asked: Vec<Value>,
    answer: &'static str,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1);
    let cwd = words.next().expect("the folder of the session");
    let agent = AcpAgent::from_args(words)?;
    let (sender, mut updates) = unbounded_channel();
    let questions = Arc::new(Mutex::new(Questions { answer: "allow_once", ..Questions::default() }));
    let answering = questions.clone();
    Client
        .v2()
        .name("sdk-client-v2")
        .on_receive_notification(
            async move |told: schema::UpdateSessionNotification, _: ConnectionTo<Agent>| {
                sender.send(json!(told.update)).map_err(Error::into_internal_error)
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: schema::RequestPermissionRequest,
                        responder: Responder<schema::RequestPermissionResponse>,
                        _: ConnectionTo<Agent>| {
                let asked = json!(request);
                let mut questions = answering.lock().expect("no panic holds it");
                let options = asked["options"].as_array().expect("a list").clone();
                let chosen = options.iter().find(|option| option["kind"] == questions.answer).expect("it is offered");
                let outcome = json!({"outcome": {"outcome": "selected", "optionId": chosen["optionId"]}});
                questions.asked.push(asked);
                responder.respond(serde_json::from_value(outcome).map_err(Error::into_internal_error)?)
            },
            on_receive_request!(),
        )
        .connect_with(agent, async move |agent: ConnectionTo<Agent>| {
            let info = schema::Implementation::new("rust", "1.0");
            let introduced =
                agent.send_request(schema::InitializeRequest::new(ProtocolVersion::V2, info)).block_task().await?;
            let made = agent.send_request(schema::NewSessionRequest::new(&cwd)).block_task().await?;
            let mut turns =
                Turns { agent: agent.clone(), session: made.session_id.clone(), questions: questions.clone() };
            let mut seen = json!({"introduced": introduced, "made": made});
            seen["hello"] = turns.run(&mut updates, "/echo hello", None).await?;
            seen["allowed"] = turns.run(&mut updates, "/write new.txt text", None).await?;
            questions.lock().expect("no panic holds it").answer = "reject_once";
            seen["refused"] = turns.run(&mut updates, "/write other.txt text", None).await?;
            seen["cancelled"] = turns.run(&mut updates, "/slow 60", Some("tool_call_update")).await?;
            seen["again"] = turns.run(&mut updates, "/echo again", None).await?;
            let resume = json!({"sessionId": made.session_id, "cwd": cwd, "replayFrom": {"type": "start"}});
            let resume: schema::ResumeSessionRequest =
                serde_json::from_value(resume).map_err(Error::into_internal_error)?;
            agent.send_request(resume).block_task().await?;
            let mut replayed = Vec::new();
            while let Ok(update) = updates.try_recv() {
                replayed.push(update);
            }
            seen["replayed"] = json!(replayed);
            println!("{seen}");
            Ok(())
        })
        .await
}

struct Turns {
    agent: ConnectionTo<Agent>,
    session: schema::SessionId,
    questions: Arc<Mutex<Questions>>,
}

impl Turns {
    async fn run(
        &mut self,
        updates: &mut UnboundedReceiver<Value>,
        text: &str,
        mut cancel_on: Option<&str>,
    ) -> Result<Value, Error> {
        while updates.try_recv().is_ok() {}
        self.questions.lock().expect("no panic holds it").asked.clear();
        let prompt = schema::PromptRequest::new(self.session.clone(), vec![text.to_string().into()]);
        let receipt = self.agent.send_request(prompt).block_task().await?;
        let mut seen = Vec::new();
        loop {
            let update = updates.recv().await.ok_or_else(Error::internal_error)?;
            seen.push(update.clone());
            if cancel_on.is_some_and(|kind| update["sessionUpdate"] == kind) {
                cancel_on = None;
                self.agent.send_notification(schema::CancelSessionNotification::new(self.session.clone()))?;
            }
            if update["sessionUpdate"] == "state_update" && update["state"] == "idle" {
                let asked = self.questions.lock().expect("no panic holds it").asked.clone();
                let reason = update["stopReason"].clone();
                return Ok(json!({"receipt": receipt, "stopReason": reason, "updates": seen, "asked": asked}));
            }
        }
    }
}
