//! What texts.py, meter.py, perform.py and drive.py say, in Rust. Keep them in step; knows no SDK.

pub mod drive;
pub mod meter;
pub mod perform;
pub mod texts;

/// Why a measurement is worth nothing.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;
