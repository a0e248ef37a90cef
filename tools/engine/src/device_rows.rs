//! Times of measured runs by the clock of the GPU, as text and JSON.

use crate::paired::Middle;
use jitopt_core::runtime::DeviceWork;
use serde_json::{Value, json};

/// The work of the GPU in the runs of one graph.
#[derive(Debug)]
pub(crate) struct DeviceRow {
    name: &'static str,
    time: Middle,
    rate: Middle,
    /// Fraction of the rate of a copy within its memory.
    share: Middle,
    /// The launches and the bytes of one run.
    launches: u64,
    bytes: u64,
}

impl DeviceRow {
    /// `roofs` has the rate of a copy for each run. Nothing if the GPU did nothing in a run.
    pub(crate) fn new(name: &'static str, runs: &[DeviceWork], roofs: &[f64]) -> Option<DeviceRow> {
        let last = runs.last().filter(|_| runs.iter().all(|run| run.seconds > 0.0))?;
        let rates: Vec<f64> = runs.iter().map(|run| run.bytes as f64 / run.seconds).collect();
        let shares = rates.iter().zip(roofs).map(|(rate, roof)| rate / roof).collect();
        let time = Middle::of(runs.iter().map(|run| run.seconds).collect());
        let (launches, bytes) = (last.launches, last.bytes);
        Some(DeviceRow { name, time, rate: Middle::of(rates), share: Middle::of(shares), launches, bytes })
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "time_s": self.time.json(),
            "bytes_per_s": self.rate.json(),
            "share_of_copy": self.share.json(),
            "launches": self.launches,
            "bytes_moved": self.bytes,
        })
    }

    fn markdown(&self) -> String {
        let Middle { median, low, high } = self.time;
        format!(
            "| {} | {:.4} ({:.4}–{:.4}) | {} | {:.3} | {:.1} | {:.2} |\n",
            self.name,
            median * 1e3,
            low * 1e3,
            high * 1e3,
            self.launches,
            self.bytes as f64 / 1e3,
            self.rate.median / 1e9,
            self.share.median,
        )
    }
}

/// The GPU of a measurement.
#[derive(Debug)]
pub(crate) struct DeviceFigures {
    pub(crate) name: String,
    /// Bytes per second of copies within its memory.
    pub(crate) roof: Middle,
}

impl DeviceFigures {
    /// A table of the rows that it did something for.
    pub(crate) fn table<'r>(&self, rows: impl Iterator<Item = &'r DeviceRow>) -> String {
        let mut text = format!(
            "\non {}, by its own clock; a copy within its memory: {:.1} GB/s\n\n\
             | | ms | launches | moved, kB | GB/s | of the copy |\n| --- | ---: | ---: | ---: | ---: | ---: |\n",
            self.name,
            self.roof.median / 1e9
        );
        rows.for_each(|row| text += &row.markdown());
        text
    }

    pub(crate) fn json(&self) -> Value {
        json!({"name": self.name, "copy_bytes_per_s": self.roof.json()})
    }
}
