//! CPU time and memory of this process between a mark and now, read as meter.py reads them.

use std::fs;

pub struct Meter {
    cpu: f64,
    resident: f64,
}

pub struct Used {
    pub cpu: f64,
    pub peak: f64,
    pub growth: f64,
}

fn cpu_seconds() -> f64 {
    // SAFETY: the structure is plain data, and getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn resident(field: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|word| word.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) * 1024.0
}

impl Meter {
    pub fn mark() -> Self {
        let _ = fs::write("/proc/self/clear_refs", "5"); // without leave the peak counts from the start
        Self { resident: resident("VmRSS:"), cpu: cpu_seconds() }
    }

    pub fn read(&self) -> Used {
        let cpu = cpu_seconds() - self.cpu;
        let peak = resident("VmHWM:");
        Used { cpu, peak, growth: (peak - self.resident).max(0.0) }
    }
}
