//! CPU profiles: samples of each thread's stack, at a frequency of its CPU time.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant, SystemTime};

use pprof::protos::{Label, Profile, Sample};
use thiserror::Error;

use super::sampler::{SamplerError, Sampling};
use super::symbols::Symbols;
use super::tables::{Tables, signed};
use super::{Format, SymbolCacheGuard};
use crate::limits::CPU_STACKS;

/// A CPU profile cannot be recorded.
#[derive(Debug, Error)]
pub enum CpuProfileError {
    /// Only one at a time: a process has one handler of the timers' signal.
    #[error("another CPU profile is being recorded; try again when it is complete")]
    Busy,
    /// The kernel does not allow the timers, the signal handler, or reading stacks.
    #[error("cannot take samples: {0}")]
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

/// A profile being recorded. Dropping it stops recording.
pub struct CpuProfile {
    sampling: Sampling,
    samples: CpuSamples,
    began: Instant,
}

/// The samples of a recording; converted to a profile afterwards.
pub struct CpuSamples {
    /// CPU time per sample.
    period: Duration,
    began: SystemTime,
    took: Duration,
    /// Number of samples per stack.
    stacks: HashMap<Stack, u64>,
    lost: u64,
}

/// A thread and its stack.
#[derive(PartialEq, Eq, Hash)]
struct Stack {
    thread: String,
    /// Return addresses, the innermost first; empty beyond the limit of distinct stacks.
    addresses: Vec<usize>,
}

impl CpuProfile {
    /// Starts taking `frequency` samples per second of CPU time. They have to be collected every
    /// [`PROFILE_PAUSE`](crate::limits::PROFILE_PAUSE).
    ///
    /// # Errors
    /// Another profile is being recorded, or the kernel does not allow it.
    pub fn start(frequency: u32) -> Result<Self, CpuProfileError> {
        let period = Duration::from_secs(1) / frequency.max(1);
        Ok(Self {
            sampling: Sampling::start(period)?,
            samples: CpuSamples {
                period,
                began: SystemTime::now(),
                took: Duration::ZERO,
                stacks: HashMap::new(),
                lost: 0,
            },
            began: Instant::now(),
        })
    }

    /// Collects the samples since the last call, and starts timers for new threads.
    ///
    /// # Errors
    /// The kernel does not allow a timer for a new thread.
    pub fn collect(&mut self) -> Result<(), CpuProfileError> {
        let stacks = &mut self.samples.stacks;
        self.samples.lost += self.sampling.collect(|sample| {
            let mut stack = Stack {
                thread: sample.thread(),
                addresses: sample.addresses().to_vec(),
            };
            if stacks.len() >= CPU_STACKS && !stacks.contains_key(&stack) {
                stack.addresses.clear();
            }
            *stacks.entry(stack).or_default() += sample.times;
        })?;
        Ok(())
    }

    /// Stops recording.
    ///
    /// # Errors
    /// As for [`Self::collect`].
    pub fn end(mut self) -> Result<CpuSamples, CpuProfileError> {
        self.sampling.end();
        self.collect()?;
        self.samples.took = self.began.elapsed();
        Ok(self.samples)
    }
}

impl CpuSamples {
    /// Symbolizes and encodes the profile, which takes a second or two for a large binary.
    ///
    /// # Errors
    /// The encoder fails.
    pub fn write(self, format: Format) -> io::Result<Vec<u8>> {
        if self.lost > 0 {
            tracing::warn!(
                lost = self.lost,
                "samples of a CPU profile were dropped: the buffers were full"
            );
        }
        let _guard = SymbolCacheGuard;
        match format {
            Format::Pprof => super::gzipped(&encode(self)),
            Format::FlameGraph => {
                let title = format!("CPU, {:.0} s", self.took.as_secs_f64());
                let empty = "no CPU time was used during the profile";
                super::flame_graph(&folded(&self.stacks), &title, "samples", empty)
            }
        }
    }
}

/// Stacks in folded format: the thread, then functions from the outermost to the innermost.
fn folded(stacks: &HashMap<Stack, u64>) -> Vec<String> {
    let mut symbols = Symbols::default();
    let lines = stacks.iter().map(|(stack, count)| {
        let path = match &*stack.addresses {
            [] => "(stack dropped)".to_owned(),
            addresses => symbols.path(addresses),
        };
        format!("{};{path} {count}", stack.thread.replace(';', ","))
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort_unstable();
    lines
}

fn encode(samples: CpuSamples) -> Profile {
    let mut tables = Tables::default();
    let nanoseconds = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    let period = nanoseconds(samples.period);
    let types = [("samples", "count"), ("cpu", "nanoseconds")];
    let sample_type = types
        .map(|(name, unit)| tables.value_type(name, unit))
        .to_vec();
    // Consumes the stacks, so that each is freed once it is encoded.
    let sample = samples.stacks.into_iter().map(|(stack, count)| Sample {
        location_id: tables.locations(&stack.addresses),
        value: vec![signed(count), signed(count).saturating_mul(period)],
        label: vec![Label {
            key: tables.string("thread"),
            str: tables.string(&stack.thread),
            ..Label::default()
        }],
    });
    let sample = sample.collect();
    let lost = (samples.lost > 0).then(|| {
        let lost = samples.lost;
        tables.string(&format!(
            "{lost} samples were dropped: the buffers were full"
        ))
    });
    Profile {
        sample_type,
        sample,
        period_type: Some(tables.value_type("cpu", "nanoseconds")),
        period,
        duration_nanos: nanoseconds(samples.took),
        comment: lost.into_iter().collect(),
        ..tables.into_profile(samples.began)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::io::{Read as _, Write as _};
    use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};
    use std::thread;
    use std::time::{Duration, Instant, SystemTime};

    use flate2::read::GzDecoder;
    use pprof::protos::{Message, Profile, Sample};

    use super::{CpuProfile, CpuProfileError, CpuSamples, Format};
    use crate::limits::PROFILE_PAUSE;

    /// Samples for each second of CPU time.
    const FREQUENCY: u32 = 100;

    fn spend(time: Duration, mut on: impl FnMut()) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            on();
        }
    }

    /// Samples of the loop and its callees.
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
        let profile = CpuProfile::start(FREQUENCY).expect("no other profile is being recorded");
        on();
        written(profile)
    }

    const SPENDER: &str = "spender";

    /// Lets three threads use this much CPU time, and returns how much they got.
    fn while_threads_spend(mut profile: CpuProfile, time: Duration) -> (Profile, Duration) {
        const THREADS: usize = 3;
        let known = Arc::new(Barrier::new(THREADS + 1));
        let spender = || {
            let known = Arc::clone(&known);
            let spends = move || {
                known.wait();
                spend(time, sums_on_purpose);
                let text = std::fs::read_to_string("/proc/thread-self/schedstat");
                let text = text.expect("the kernel counts");
                let used = text.split(' ').next().and_then(|used| used.parse().ok());
                Duration::from_nanos(used.expect("nanoseconds"))
            };
            let thread = thread::Builder::new().name(SPENDER.to_owned());
            thread.spawn(spends).expect("a thread")
        };
        let spenders: Vec<_> = (0..THREADS).map(|_| spender()).collect();
        profile.collect().expect("they get timers");
        known.wait();
        while !spenders.iter().all(thread::JoinHandle::is_finished) {
            // As often as the endpoint looks: samples must not lie until there is no room.
            thread::sleep(PROFILE_PAUSE);
            profile.collect().expect("samples");
        }
        let used = spenders.into_iter().map(|it| it.join().expect("ends"));
        let used = used.sum();
        (written(profile), used)
    }

    fn written(profile: CpuProfile) -> Profile {
        let bytes = profile.end().expect("samples").write(Format::Pprof);
        decoded(&bytes.expect("a profile"))
    }

    fn decoded(gzipped: &[u8]) -> Profile {
        let mut raw = Vec::new();
        GzDecoder::new(gzipped).read_to_end(&mut raw).expect("gzip");
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

    const TIME: Duration = Duration::from_millis(500);

    /// There is one profiler in a process.
    static ALONE: Mutex<()> = Mutex::new(());

    fn alone() -> MutexGuard<'static, ()> {
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn samples_are_symbolized_to_functions_and_lines() {
        let _alone = alone();
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
            // Stacks go to their ends.
            assert!(
                functions
                    .iter()
                    .any(|(name, _)| name.contains("thread_start")),
                "{functions:?}"
            );
            assert_eq!(sample.value[1], sample.value[0] * 10_000_000, "nanoseconds");
        }
        assert!(in_its_lines * 2 > all, "{in_its_lines} of {all} samples");
    }

    #[test]
    fn kernel_time_counts_for_the_system_call() {
        let _alone = alone();
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
    }

    #[test]
    fn the_cpu_time_of_several_threads_is_complete() {
        let _alone = alone();
        // More than the kernel has ticks, of all of them together.
        let profile = CpuProfile::start(250).expect("no other profile is being recorded");
        let (profile, used) = while_threads_spend(profile, TIME);
        let thread = |sample: &Sample| {
            let name = usize::try_from(sample.label[0].str).expect("a place");
            profile.string_table[name].as_str()
        };
        let samples = profile.sample.iter().filter(|it| thread(it) == SPENDER);
        let total: i64 = samples.map(|sample| sample.value[1]).sum();
        let total = Duration::from_nanos(u64::try_from(total).expect("a time"));
        assert!(
            total > used.mul_f64(0.8) && total < used.mul_f64(1.2),
            "{total:?} of {used:?}"
        );
    }

    #[test]
    fn only_one_profile_is_recorded_at_a_time() {
        let _alone = alone();
        let profile = CpuProfile::start(FREQUENCY).expect("no other profile is being recorded");
        assert!(matches!(
            CpuProfile::start(FREQUENCY),
            Err(CpuProfileError::Busy)
        ));
        drop(profile);
        CpuProfile::start(FREQUENCY).expect("the first has ended");
    }

    #[test]
    fn dropped_samples_are_reported() {
        let samples = CpuSamples {
            period: Duration::from_millis(10),
            began: SystemTime::UNIX_EPOCH,
            took: TIME,
            stacks: HashMap::new(),
            lost: 3,
        };
        let profile = decoded(&samples.write(Format::Pprof).expect("a profile"));
        let comment = usize::try_from(profile.comment[0]).expect("a place");
        assert_eq!(
            profile.string_table[comment],
            "3 samples were dropped: the buffers were full"
        );
    }

    #[test]
    fn flame_graphs_are_drawn() {
        let _alone = alone();
        let profile = CpuProfile::start(FREQUENCY).expect("no other profile is being recorded");
        spend(TIME, sums_on_purpose);
        let svg = drawn(profile);
        assert!(svg.contains("<svg") && svg.contains("sums_on_purpose"));

        // Ended long before the first second of CPU time, as in a gateway without traffic.
        let svg = drawn(CpuProfile::start(1).expect("no other profile is being recorded"));
        let why = "No samples: no CPU time was used during the profile";
        assert!(svg.contains("<svg") && svg.contains(why), "{svg}");
    }

    fn drawn(profile: CpuProfile) -> String {
        let samples = profile.end().expect("samples");
        let svg = samples.write(Format::FlameGraph).expect("a graph");
        String::from_utf8(svg).expect("text")
    }
}
