//! The client's half of the measured work: takes a specification and a client, gives the figures.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::Fault;
use crate::meter::Meter;
use crate::texts::{CHUNK_BYTES, Reader, is_document};

const MIB: f64 = 1024.0 * 1024.0;
const WARM_CHUNKS: usize = 500;
const WARM_REQUESTS: usize = 200;

/// Takes each text of a turn.
pub type Take = Box<dyn FnMut(String) -> Result<(), Fault> + Send>;

/// What a client must be able to do; `prompt` ends when the turn has and every text was taken.
#[allow(async_fn_in_trait)]
pub trait Client {
    type Session;
    async fn open(&self) -> Result<Self::Session, Fault>;
    async fn prompt(&self, session: &Self::Session, text: &str, take: Take) -> Result<(), Fault>;
}

fn number(specification: &Value, name: &str) -> Result<usize, Fault> {
    let found = specification[name].as_u64().ok_or_else(|| format!("the work names no {name}"))?;
    Ok(found as usize)
}

/// Do the work that the specification names and measure it.
pub async fn drive(specification: &Value, client: &impl Client) -> Result<Value, Fault> {
    match specification["work"].as_str() {
        Some("stream") => stream(number(specification, "count")?, client).await,
        Some("files") => files(specification, client).await,
        Some("sessions") => sessions(number(specification, "count")?, number(specification, "updates")?, client).await,
        Some("document") => document(number(specification, "size")?, client).await,
        other => Err(format!("unknown work: {other:?}").into()),
    }
}

async fn streamed<C: Client>(client: &C, session: &C::Session, count: usize) -> Result<(), Fault> {
    let reader = Arc::new(Mutex::new(Reader::default()));
    let taking = reader.clone();
    let take = move |text: String| taking.lock().unwrap().take(&text);
    client.prompt(session, &format!("/stream {count} {CHUNK_BYTES}"), Box::new(take)).await?;
    reader.lock().unwrap().expect(count)
}

async fn told<C: Client>(client: &C, session: &C::Session, text: &str) -> Result<Vec<String>, Fault> {
    let texts = Arc::new(Mutex::new(Vec::new()));
    let taking = texts.clone();
    let take = move |text| Ok(taking.lock().unwrap().push(text));
    client.prompt(session, text, Box::new(take)).await?;
    Ok(std::mem::take(&mut texts.lock().unwrap()))
}

async fn report<C: Client>(client: &C, session: &C::Session) -> Result<Value, Fault> {
    Ok(serde_json::from_str(&told(client, session, "/report").await?.concat())?)
}

async fn marked<C: Client>(client: &C, session: &C::Session) -> Result<Meter, Fault> {
    told(client, session, "/mark").await?;
    Ok(Meter::mark())
}

fn figure(report: &Value, name: &str) -> f64 {
    report[name].as_f64().unwrap_or(f64::NAN)
}

async fn stream(count: usize, client: &impl Client) -> Result<Value, Fault> {
    let session = client.open().await?;
    streamed(client, &session, WARM_CHUNKS).await?;
    let meter = marked(client, &session).await?;
    let started = Instant::now();
    streamed(client, &session, count).await?;
    let elapsed = started.elapsed().as_secs_f64();
    let ours = meter.read();
    let theirs = report(client, &session).await?;
    let each = count as f64;
    Ok(json!({
        "messages_per_second": each / elapsed,
        "client_cpu_us": ours.cpu / each * 1e6,
        "client_peak_mb": ours.peak / MIB,
        "agent_cpu_us": figure(&theirs, "cpu") / each * 1e6,
        "agent_peak_mb": figure(&theirs, "peak") / MIB,
    }))
}

async fn files(specification: &Value, client: &impl Client) -> Result<Value, Fault> {
    let (count, inflight) = (number(specification, "count")?, number(specification, "inflight")?);
    let path = specification["path"].as_str().unwrap_or_default();
    let session = client.open().await?;
    told(client, &session, &format!("/files {WARM_REQUESTS} {inflight} {path}")).await?;
    marked(client, &session).await?;
    told(client, &session, &format!("/files {count} {inflight} {path}")).await?;
    let theirs = report(client, &session).await?;
    Ok(json!({
        "p50_us": figure(&theirs, "p50") * 1e6,
        "requests_per_second": figure(&theirs, "requests_per_second"),
    }))
}

async fn sessions(count: usize, updates: usize, client: &impl Client) -> Result<Value, Fault> {
    streamed(client, &client.open().await?, WARM_CHUNKS).await?;
    let one = async || -> Result<(), Fault> { streamed(client, &client.open().await?, updates).await };
    let started = Instant::now();
    try_join_all((0..count).map(|_| one())).await?;
    Ok(json!({"time_ms": started.elapsed().as_secs_f64() * 1e3}))
}

async fn document(size: usize, client: &impl Client) -> Result<Value, Fault> {
    let session = client.open().await?;
    let meter = marked(client, &session).await?;
    let started = Instant::now();
    let texts = told(client, &session, &format!("/document {size}")).await?;
    let elapsed = started.elapsed().as_secs_f64();
    let ours = meter.read();
    if texts.len() != 1 || !is_document(&texts[0], size) {
        return Err("the document arrived changed".into());
    }
    let theirs = report(client, &session).await?;
    Ok(json!({
        "time_ms": elapsed * 1e3,
        "client_growth": ours.growth / size as f64,
        "agent_growth": figure(&theirs, "growth") / size as f64,
    }))
}
