//! The agent's half of the measured work: takes a prompt and two verbs of the SDK, does the rest.

use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use futures::future::try_join_all;
use serde_json::{Map, Value, json};

use crate::Fault;
use crate::meter::Meter;
use crate::texts::{ANSWER, chunk, document};

/// What an agent must be able to do in a turn.
pub trait Client: Sync {
    fn say(&self, text: String) -> impl Future<Output = Result<(), Fault>> + Send;
    fn read(&self, path: String) -> impl Future<Output = Result<String, Fault>> + Send;
}

pub struct Performer {
    meter: Mutex<Meter>,
    noted: Mutex<Map<String, Value>>,
}

impl Default for Performer {
    fn default() -> Self {
        Self { meter: Mutex::new(Meter::mark()), noted: Mutex::default() }
    }
}

impl Performer {
    /// Do what one prompt says.
    pub async fn perform(&self, prompt: &str, client: &impl Client) -> Result<(), Fault> {
        let words: Vec<&str> = prompt.split_whitespace().collect();
        match words.as_slice() {
            ["/mark"] => {
                self.noted.lock().unwrap().clear();
                *self.meter.lock().unwrap() = Meter::mark();
            }
            ["/stream", count, size] => {
                let size = size.parse()?;
                for number in 0..count.parse()? {
                    client.say(chunk(number, size)).await?;
                }
            }
            ["/document", size] => client.say(document(size.parse()?)).await?,
            ["/files", count, inflight, path @ ..] => {
                let noted = read_files(count.parse()?, inflight.parse()?, path.first().copied(), client).await?;
                *self.noted.lock().unwrap() = noted;
            }
            ["/report"] => client.say(self.report()).await?,
            _ => return Err(format!("unknown work: {prompt:?}").into()),
        }
        Ok(())
    }

    fn report(&self) -> String {
        let used = self.meter.lock().unwrap().read();
        let mut figures = self.noted.lock().unwrap().clone();
        figures.extend([
            ("cpu".into(), json!(used.cpu)),
            ("peak".into(), json!(used.peak)),
            ("growth".into(), json!(used.growth)),
        ]);
        Value::Object(figures).to_string()
    }
}

async fn read_files(
    count: usize,
    inflight: usize,
    path: Option<&str>,
    client: &impl Client,
) -> Result<Map<String, Value>, Fault> {
    let (next, latencies) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
    let worker = async || -> Result<(), Fault> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            let asked = Instant::now();
            let text = client.read(path.map_or_else(|| format!("/bench/file-{number:05}.txt"), str::to_owned)).await?;
            latencies.lock().unwrap().push(asked.elapsed().as_secs_f64());
            if text.is_empty() || (path.is_none() && text != ANSWER) {
                return Err(format!("request {number}: unexpected answer {text:?}").into());
            }
        }
    };
    let started = Instant::now();
    try_join_all((0..inflight).map(|_| worker())).await?;
    let elapsed = started.elapsed().as_secs_f64();
    let mut latencies = latencies.into_inner().unwrap();
    if latencies.len() != count {
        return Err(format!("{} answers to {count} requests", latencies.len()).into());
    }
    latencies.sort_by(f64::total_cmp);
    let figures = [("p50", latencies[count / 2]), ("requests_per_second", count as f64 / elapsed)];
    Ok(figures.into_iter().map(|(name, value)| (name.to_string(), json!(value))).collect())
}
