//! Where the process's CPU time goes: the stack of whichever thread runs, so many times a second.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use pprof::protos::{Label, Profile, Sample};
use thiserror::Error;

use super::sampler::{SamplerError, Sampling};
use super::symbols::Symbols;
use super::tables::{Tables, signed};
use super::{ForgetsNames, Format};
use crate::limits::CPU_STACKS;

/// What kept a profile from being made.
#[derive(Debug, Error)]
pub enum CpuProfileError {
    /// One at a time: there is one timer in a process.
    #[error("another CPU profile is being made; try again when it is done")]
    Busy,
    /// The kernel refused the timer or its signal.
    #[error("samples cannot be taken: {0}")]
    Refused(#[from] io::Error),
}

impl From<SamplerError> for CpuProfileError {
    fn from(error: SamplerError) -> Self {
        match error {
            SamplerError::Busy => Self::Busy,
            SamplerError::Refused(error) => Self::Refused(error),
        }
    }
}

/// A profile that is being made. Dropped, it ends.
pub struct CpuProfile {
    sampling: Sampling,
    /// Samples for each second of CPU time.
    frequency: i32,
    stacks: HashMap<Stack, u64>,
    lost: u64,
}

/// A way to code that ran.
#[derive(PartialEq, Eq, Hash)]
struct Stack {
    thread: String,
    /// Return addresses, the innermost first; none for what there was no room for.
    addresses: Vec<usize>,
}

impl CpuProfile {
    /// Begins to take `frequency` samples for each second of CPU time. They have to be collected
    /// every [`PROFILE_PAUSE`](crate::limits::PROFILE_PAUSE).
    ///
    /// # Errors
    /// Another one is being made, or the kernel refuses the timer.
    pub fn start(frequency: i32) -> Result<Self, CpuProfileError> {
        Ok(Self {
            sampling: Sampling::start(frequency)?,
            frequency,
            stacks: HashMap::new(),
            lost: 0,
        })
    }

    /// Counts the samples that have come since it was called last.
    pub fn collect(&mut self) {
        let stacks = &mut self.stacks;
        self.lost += self.sampling.collect(|sample| {
            let mut stack = Stack {
                thread: sample.thread(),
                addresses: sample.addresses().to_vec(),
            };
            if stacks.len() >= CPU_STACKS && !stacks.contains_key(&stack) {
                stack.addresses.clear();
            }
            *stacks.entry(stack).or_default() += 1;
        });
    }

    /// Ends it, and looks up the names: that takes a second or two on a large binary.
    ///
    /// # Errors
    /// None that memory does not cause.
    pub fn finish(mut self, took: Duration, format: Format) -> io::Result<Vec<u8>> {
        self.collect();
        drop(self.sampling);
        if self.lost > 0 {
            tracing::warn!(
                lost = self.lost,
                "a CPU profile lacks samples: nobody collected them in time"
            );
        }
        let _forgets = ForgetsNames;
        match format {
            Format::Pprof => super::gzipped(&encode(&self.stacks, self.frequency, took)),
            Format::FlameGraph => {
                let title = format!("CPU, {} s", took.as_secs());
                let empty = "no CPU time was used in these seconds";
                super::flame_graph(&folded(&self.stacks), &title, "samples", empty)
            }
        }
    }
}

/// Stacks with the thread first, then from the outermost function to the innermost.
fn folded(stacks: &HashMap<Stack, u64>) -> Vec<String> {
    let mut symbols = Symbols::default();
    let lines = stacks.iter().map(|(stack, count)| {
        let path = symbols.path(&stack.addresses);
        format!("{};{path} {count}", stack.thread.replace(';', ","))
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort_unstable();
    lines
}

fn encode(stacks: &HashMap<Stack, u64>, frequency: i32, took: Duration) -> Profile {
    let mut tables = Tables::default();
    let period = 1_000_000_000 / u64::from(frequency.unsigned_abs().max(1));
    let types = [("samples", "count"), ("cpu", "nanoseconds")];
    let sample_type = types
        .map(|(name, unit)| tables.value_type(name, unit))
        .to_vec();
    let sample = stacks
        .iter()
        .map(|(stack, &count)| Sample {
            location_id: tables.locations(&stack.addresses),
            value: vec![signed(count), signed(count * period)],
            label: vec![Label {
                key: tables.string("thread"),
                str: tables.string(&stack.thread),
                ..Label::default()
            }],
        })
        .collect();
    Profile {
        sample_type,
        sample,
        period_type: Some(tables.value_type("cpu", "nanoseconds")),
        period: signed(period),
        duration_nanos: i64::try_from(took.as_nanos()).unwrap_or(i64::MAX),
        ..tables.into_profile()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::time::{Duration, Instant};

    use flate2::read::GzDecoder;
    use pprof::protos::{Message, Profile, Sample};

    use super::{CpuProfile, CpuProfileError, Format};

    /// Samples a second. The kernel looks at the time at its own ticks, of which there may be no more.
    const FREQUENCY: i32 = 100;

    fn spend(time: Duration, mut on: impl FnMut()) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            on();
        }
    }

    /// Of the loop and of what is in it.
    const LINES_OF_SUMS: std::ops::RangeInclusive<i64> = line!() as i64 + 5..=line!() as i64 + 6;

    #[inline(never)]
    fn sums_on_purpose() {
        let mut sum = 1_u64;
        for number in 0..1_000_000_u64 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(number));
        }
        std::hint::black_box(sum);
    }

    #[inline(never)]
    fn writes_on_purpose(mut nowhere: &std::fs::File) {
        for _ in 0..100 {
            nowhere.write_all(b".").expect("takes all");
        }
    }

    fn made(on: impl FnOnce()) -> Profile {
        let mut profile = CpuProfile::start(FREQUENCY).expect("nobody else makes one");
        on();
        profile.collect();
        let bytes = profile.finish(Duration::from_secs(1), Format::Pprof);
        let mut raw = Vec::new();
        GzDecoder::new(bytes.expect("a profile").as_slice())
            .read_to_end(&mut raw)
            .expect("gzip");
        Profile::decode(raw.as_slice()).expect("protobuf")
    }

    /// The functions of a sample with their lines, the innermost first.
    fn functions<'a>(profile: &'a Profile, sample: &Sample) -> Vec<(&'a str, i64)> {
        let text = |at: i64| profile.string_table[usize::try_from(at).expect("a place")].as_str();
        let mut functions = Vec::new();
        for &id in &sample.location_id {
            let at = |id: u64| usize::try_from(id).expect("a place") - 1;
            for line in &profile.location[at(id)].line {
                let function = &profile.function[at(line.function_id)];
                functions.push((text(function.name), line.line));
            }
        }
        functions
    }

    /// The samples in which a function ran, and all.
    fn samples_in<'a>(profile: &'a Profile, name: &str) -> (Vec<&'a Sample>, i64) {
        let ran = |sample: &&Sample| {
            let functions = functions(profile, sample);
            functions
                .iter()
                .any(|(function, _)| function.contains(name))
        };
        let all = profile.sample.iter().map(|sample| sample.value[0]).sum();
        (profile.sample.iter().filter(ran).collect(), all)
    }

    /// One test, since there is one profiler in a process.
    #[test]
    fn stacks_are_those_that_ran() {
        const TIME: Duration = Duration::from_millis(500);

        // Functions are told with the line that ran, and stacks go to their ends.
        let profile = made(|| spend(TIME, sums_on_purpose));
        let (samples, all) = samples_in(&profile, "sums_on_purpose");
        assert!(
            !samples.is_empty() && all >= 10,
            "{} of {all}",
            samples.len()
        );
        let mut in_its_lines = 0;
        for sample in samples {
            let functions = functions(&profile, sample);
            let sums = functions
                .iter()
                .find(|(name, _)| name.contains("sums_on_purpose"));
            let line = sums.expect("it ran").1;
            in_its_lines += i64::from(LINES_OF_SUMS.contains(&line)) * sample.value[0];
            assert!(
                functions
                    .iter()
                    .any(|(name, _)| name.contains("thread_start")),
                "{functions:?}"
            );
            assert_eq!(sample.value[1], sample.value[0] * 10_000_000, "nanoseconds");
        }
        assert!(in_its_lines * 2 > all, "{in_its_lines} of {all} samples");

        // Time in the kernel is that of the call, and of who called.
        let nowhere = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/null")
            .expect("is there");
        let profile = made(|| spend(TIME, || writes_on_purpose(&nowhere)));
        let (samples, all) = samples_in(&profile, "writes_on_purpose");
        let called = samples.iter().filter(|sample| {
            let innermost = functions(&profile, sample)[0].0;
            innermost.contains("write") && !innermost.contains("purpose")
        });
        let called: i64 = called.map(|sample| sample.value[0]).sum();
        assert!(
            called * 4 > all,
            "{called} of {all} samples in the system call"
        );

        // One at a time.
        let mut profile = CpuProfile::start(FREQUENCY).expect("the third one");
        assert!(matches!(CpuProfile::start(99), Err(CpuProfileError::Busy)));
        spend(TIME, sums_on_purpose);
        profile.collect();
        let svg = profile.finish(TIME, Format::FlameGraph).expect("a graph");
        let svg = String::from_utf8(svg).expect("text");
        assert!(svg.contains("<svg") && svg.contains("sums_on_purpose"));

        // Ended long before the first second of CPU time, as in a gateway without traffic.
        let profile = CpuProfile::start(1).expect("the fourth one");
        let svg = profile.finish(TIME, Format::FlameGraph).expect("a graph");
        let svg = String::from_utf8(svg).expect("text");
        let why = "Nothing was sampled: no CPU time was used in these seconds";
        assert!(svg.contains("<svg") && svg.contains(why), "{svg}");
    }
}
