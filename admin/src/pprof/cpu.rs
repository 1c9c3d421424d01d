//! Where the process's CPU time goes: each thread's stack, so many times in a second of its time.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant, SystemTime};

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
    /// One at a time: there is one handler of the timers' signal in a process.
    #[error("another CPU profile is being made; try again when it is done")]
    Busy,
    /// The kernel refused the timers, their signal, or to copy stacks.
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
    sampled: Sampled,
    began: Instant,
}

/// What a profile has seen.
pub struct Sampled {
    /// CPU time that a sample stands for.
    period: Duration,
    began: SystemTime,
    took: Duration,
    /// How many samples each had.
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
    /// Another one is being made, or the kernel refuses to let one be made.
    pub fn start(frequency: u32) -> Result<Self, CpuProfileError> {
        let period = Duration::from_secs(1) / frequency.max(1);
        Ok(Self {
            sampling: Sampling::start(period)?,
            sampled: Sampled {
                period,
                began: SystemTime::now(),
                took: Duration::ZERO,
                stacks: HashMap::new(),
                lost: 0,
            },
            began: Instant::now(),
        })
    }

    /// Counts the samples that have come since it was called last, and looks for new threads.
    ///
    /// # Errors
    /// The kernel refuses a timer to a new thread.
    pub fn collect(&mut self) -> Result<(), CpuProfileError> {
        let stacks = &mut self.sampled.stacks;
        self.sampled.lost += self.sampling.collect(|sample| {
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

    /// Ends it.
    ///
    /// # Errors
    /// As for [`Self::collect`].
    pub fn end(mut self) -> Result<Sampled, CpuProfileError> {
        self.sampling.end();
        self.collect()?;
        self.sampled.took = self.began.elapsed();
        Ok(self.sampled)
    }
}

impl Sampled {
    /// Looks up the names, and writes them: that takes a second or two on a large binary.
    ///
    /// # Errors
    /// None that memory does not cause.
    pub fn write(self, format: Format) -> io::Result<Vec<u8>> {
        if self.lost > 0 {
            tracing::warn!(
                lost = self.lost,
                "a CPU profile lacks samples: there was no room for them"
            );
        }
        let _forgets = ForgetsNames;
        match format {
            Format::Pprof => super::gzipped(&encode(self)),
            Format::FlameGraph => {
                let title = format!("CPU, {:.0} s", self.took.as_secs_f64());
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
        let path = match &*stack.addresses {
            [] => "(not kept)".to_owned(),
            addresses => symbols.path(addresses),
        };
        format!("{};{path} {count}", stack.thread.replace(';', ","))
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort_unstable();
    lines
}

fn encode(sampled: Sampled) -> Profile {
    let mut tables = Tables::default();
    let nanoseconds = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    let period = nanoseconds(sampled.period);
    let types = [("samples", "count"), ("cpu", "nanoseconds")];
    let sample_type = types
        .map(|(name, unit)| tables.value_type(name, unit))
        .to_vec();
    // Each stack makes room for the next.
    let sample = sampled.stacks.into_iter().map(|(stack, count)| Sample {
        location_id: tables.locations(&stack.addresses),
        value: vec![signed(count), signed(count).saturating_mul(period)],
        label: vec![Label {
            key: tables.string("thread"),
            str: tables.string(&stack.thread),
            ..Label::default()
        }],
    });
    let sample = sample.collect();
    let lost = (sampled.lost > 0).then(|| {
        let lost = sampled.lost;
        tables.string(&format!(
            "{lost} samples were lost: there was no room for them"
        ))
    });
    Profile {
        sample_type,
        sample,
        period_type: Some(tables.value_type("cpu", "nanoseconds")),
        period,
        duration_nanos: nanoseconds(sampled.took),
        comment: lost.into_iter().collect(),
        ..tables.into_profile(sampled.began)
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

    use super::{CpuProfile, CpuProfileError, Format, Sampled};
    use crate::limits::PROFILE_PAUSE;

    /// Samples for each second of CPU time.
    const FREQUENCY: u32 = 100;

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
        let profile = CpuProfile::start(FREQUENCY).expect("nobody else makes one");
        on();
        written(profile)
    }

    const SPENDER: &str = "spender";

    /// Has three threads use so much time, and says how much CPU time they had of it.
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
    fn functions_are_told_with_the_line_that_ran() {
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
    fn time_in_the_kernel_is_that_of_the_call() {
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
    fn all_the_time_of_several_threads_is_told() {
        let _alone = alone();
        // More than the kernel has ticks, of all of them together.
        let profile = CpuProfile::start(250).expect("nobody else makes one");
        let (profile, used) = while_threads_spend(profile, TIME);
        let thread = |sample: &Sample| {
            let name = usize::try_from(sample.label[0].str).expect("a place");
            profile.string_table[name].as_str()
        };
        let theirs = profile.sample.iter().filter(|it| thread(it) == SPENDER);
        let told: i64 = theirs.map(|sample| sample.value[1]).sum();
        let told = Duration::from_nanos(u64::try_from(told).expect("a time"));
        assert!(
            told > used.mul_f64(0.8) && told < used.mul_f64(1.2),
            "{told:?} of {used:?}"
        );
    }

    #[test]
    fn one_is_made_at_a_time() {
        let _alone = alone();
        let profile = CpuProfile::start(FREQUENCY).expect("nobody else makes one");
        assert!(matches!(
            CpuProfile::start(FREQUENCY),
            Err(CpuProfileError::Busy)
        ));
        drop(profile);
        CpuProfile::start(FREQUENCY).expect("the first has ended");
    }

    #[test]
    fn what_is_lost_is_told() {
        let sampled = Sampled {
            period: Duration::from_millis(10),
            began: SystemTime::UNIX_EPOCH,
            took: TIME,
            stacks: HashMap::new(),
            lost: 3,
        };
        let profile = decoded(&sampled.write(Format::Pprof).expect("a profile"));
        let comment = usize::try_from(profile.comment[0]).expect("a place");
        assert_eq!(
            profile.string_table[comment],
            "3 samples were lost: there was no room for them"
        );
    }

    #[test]
    fn flame_graphs_are_drawn() {
        let _alone = alone();
        let profile = CpuProfile::start(FREQUENCY).expect("nobody else makes one");
        spend(TIME, sums_on_purpose);
        let svg = drawn(profile);
        assert!(svg.contains("<svg") && svg.contains("sums_on_purpose"));

        // Ended long before the first second of CPU time, as in a gateway without traffic.
        let svg = drawn(CpuProfile::start(1).expect("nobody else makes one"));
        let why = "Nothing was sampled: no CPU time was used in these seconds";
        assert!(svg.contains("<svg") && svg.contains(why), "{svg}");
    }

    fn drawn(profile: CpuProfile) -> String {
        let sampled = profile.end().expect("samples");
        let svg = sampled.write(Format::FlameGraph).expect("a graph");
        String::from_utf8(svg).expect("text")
    }
}
