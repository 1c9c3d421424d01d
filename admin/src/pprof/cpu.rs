//! Where the process's CPU time goes: the stack of whichever thread runs, so many times a second.

use std::path::Path;
use std::time::Duration;

use pprof::{ProfilerGuard, ProfilerGuardBuilder, Report};
use thiserror::Error;

use super::{ForgetsNames, Format};

/// What kept a profile from being made.
#[derive(Debug, Error)]
pub enum CpuProfileError {
    /// One at a time: the timer signal is the process's only one.
    #[error("another CPU profile is being made; try again when it is done")]
    Busy,
    /// Samples that find no room in memory go to a file.
    #[error(
        "the profiler needs a place for a temporary file: mount a folder that can be written at \
         /dev/shm, or name one in TMPDIR"
    )]
    NoFolder,
    /// The profiler refused.
    #[error("the profiler failed: {0}")]
    Failed(String),
}

impl From<pprof::Error> for CpuProfileError {
    fn from(error: pprof::Error) -> Self {
        match error {
            pprof::Error::Running => Self::Busy,
            error => Self::Failed(error.to_string()),
        }
    }
}

/// A profile that is being made. Dropped, it ends.
pub struct CpuProfile {
    guard: ProfilerGuard<'static>,
}

impl CpuProfile {
    /// Begins to take `frequency` samples for each second of CPU time.
    ///
    /// # Errors
    /// Another one is being made, or the kernel refuses the timer.
    pub fn start(frequency: i32) -> Result<Self, CpuProfileError> {
        find_folder()?;
        let guard = ProfilerGuardBuilder::default()
            .frequency(frequency)
            .blocklist(&WITHOUT_FRAME_POINTERS)
            .build()?;
        Ok(Self { guard })
    }

    /// Ends it, and looks up the names: that takes a second or two on a large binary.
    ///
    /// # Errors
    /// The samples cannot be read or written.
    pub fn finish(self, took: Duration, format: Format) -> Result<Vec<u8>, CpuProfileError> {
        let _forgets = ForgetsNames;
        let report = self.guard.report().build()?;
        drop(self.guard);
        write(&report, took, format)
    }
}

/// Sees to it that the profiler finds a place for its file: the root of a hardened container can not
/// be written, and its shared memory can.
fn find_folder() -> Result<(), CpuProfileError> {
    if tempfile::tempfile().is_ok() {
        return Ok(());
    }
    // Refused where it is in force already, and then no file can be made in it.
    let _ = tempfile::env::override_temp_dir(Path::new("/dev/shm"));
    let found = tempfile::tempfile().map(drop);
    found.map_err(|_| CpuProfileError::NoFolder)
}

/// Code that was compiled without frame pointers: a sample in there could not be walked.
const WITHOUT_FRAME_POINTERS: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

fn write(report: &Report, took: Duration, format: Format) -> Result<Vec<u8>, CpuProfileError> {
    let failed = |error: &dyn std::fmt::Display| CpuProfileError::Failed(error.to_string());
    match format {
        Format::Pprof => super::gzipped(&report.pprof()?).map_err(|error| failed(&error)),
        Format::FlameGraph => {
            let folded = folded(report);
            let title = format!("CPU, {} s", took.as_secs());
            let empty = "no CPU time was used in these seconds";
            super::flame_graph(&folded, &title, "samples", empty).map_err(|error| failed(&error))
        }
    }
}

/// Stacks with the thread first, then from the outermost function to the innermost.
fn folded(report: &Report) -> Vec<String> {
    let lines = report.data.iter().map(|(stack, count)| {
        let mut line = stack.thread_name_or_id();
        let outermost_first = stack.frames.iter().rev();
        for symbol in outermost_first.flat_map(|frame| frame.iter().rev()) {
            line.push(';');
            line.push_str(&symbol.name().replace(';', ","));
        }
        format!("{line} {count}")
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort_unstable();
    lines
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::time::{Duration, Instant};

    use flate2::read::GzDecoder;
    use pprof::protos::{Message, Profile};

    use super::{CpuProfile, CpuProfileError, Format};

    #[inline(never)]
    fn burn_on_purpose(until: Instant) -> u64 {
        let mut sum = 0_u64;
        while Instant::now() < until {
            for number in 0..10_000_u64 {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(number));
            }
        }
        sum
    }

    /// One test, since there is one profiler in a process.
    #[test]
    fn a_busy_function_is_named_and_there_is_one_profile_at_a_time() {
        const TIME: Duration = Duration::from_millis(300);
        let profile = CpuProfile::start(250).expect("the first one");
        assert!(matches!(CpuProfile::start(99), Err(CpuProfileError::Busy)));
        std::hint::black_box(burn_on_purpose(Instant::now() + TIME));
        let bytes = profile.finish(TIME, Format::Pprof).expect("a profile");
        let mut raw = Vec::new();
        GzDecoder::new(bytes.as_slice())
            .read_to_end(&mut raw)
            .expect("gzip");
        let decoded = Profile::decode(raw.as_slice()).expect("protobuf");
        let named = decoded
            .string_table
            .iter()
            .any(|name| name.contains("burn_on_purpose"));
        assert!(named, "{:?}", decoded.string_table);

        let profile = CpuProfile::start(250).expect("the second one");
        std::hint::black_box(burn_on_purpose(Instant::now() + TIME));
        let svg = profile.finish(TIME, Format::FlameGraph).expect("a graph");
        let svg = String::from_utf8(svg).expect("text");
        assert!(svg.contains("<svg") && svg.contains("burn_on_purpose"));

        // Ended long before the first second of CPU time, as in a gateway without traffic.
        let profile = CpuProfile::start(1).expect("the third one");
        let svg = profile.finish(TIME, Format::FlameGraph).expect("a graph");
        let svg = String::from_utf8(svg).expect("text");
        let why = "Nothing was sampled: no CPU time was used in these seconds";
        assert!(svg.contains("<svg") && svg.contains(why), "{svg}");
    }
}
