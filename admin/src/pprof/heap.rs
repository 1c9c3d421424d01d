//! Heap profiles from the samples of the proxy's allocator.

use std::io;
use std::time::SystemTime;

use pprof::protos::{Profile, Sample};

use super::symbols::Symbols;
use super::tables::{Tables, signed};
use super::{Format, SymbolCacheGuard};

/// Allocations of one stack, estimated from samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeapStack {
    /// Return addresses, the innermost first.
    pub frames: Vec<usize>,
    /// Allocations since the start.
    pub allocated_objects: u64,
    /// Bytes allocated since the start.
    pub allocated_bytes: u64,
    /// Allocations not freed yet.
    pub live_objects: u64,
    /// Bytes not freed yet.
    pub live_bytes: u64,
}

/// Encodes a profile. `distance` is the mean number of bytes between samples.
///
/// # Errors
/// The encoder fails.
pub fn write(stacks: &[HeapStack], distance: u32, format: Format) -> io::Result<Vec<u8>> {
    let _guard = SymbolCacheGuard;
    match format {
        Format::Pprof => super::gzipped(&encode(stacks, distance)),
        Format::FlameGraph => {
            let folded = folded(stacks);
            super::flame_graph(
                &folded,
                "Heap in use",
                "bytes",
                "no sampled allocation is live",
            )
        }
    }
}

/// Live bytes by stack, in folded format.
fn folded(stacks: &[HeapStack]) -> Vec<String> {
    let mut symbols = Symbols::default();
    let live = stacks.iter().filter(|stack| stack.live_bytes > 0);
    let lines = live.map(|stack| format!("{} {}", symbols.path(&stack.frames), stack.live_bytes));
    let mut lines: Vec<_> = lines.collect();
    lines.sort_unstable();
    lines
}

fn encode(stacks: &[HeapStack], distance: u32) -> Profile {
    let mut tables = Tables::default();
    let types = [
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ];
    let sample_type = types
        .map(|(name, unit)| tables.value_type(name, unit))
        .to_vec();
    let sample = stacks
        .iter()
        .map(|stack| Sample {
            location_id: tables.locations(&stack.frames),
            value: [
                stack.allocated_objects,
                stack.allocated_bytes,
                stack.live_objects,
                stack.live_bytes,
            ]
            .map(signed)
            .to_vec(),
            ..Sample::default()
        })
        .collect();
    Profile {
        sample_type,
        sample,
        period_type: Some(tables.value_type("space", "bytes")),
        period: i64::from(distance),
        default_sample_type: tables.string("inuse_space"),
        drop_frames: tables.string(ALLOCATOR_FRAMES),
        ..tables.into_profile(SystemTime::now())
    }
}

/// Frames that viewers drop, with everything they called: the allocator and its sampler, so that
/// memory is attributed to the code that allocates it.
const ALLOCATOR_FRAMES: &str = "proxy::memory::heap::.*|.*heap::Sampled.*|\
    (__rustc::)?__(rust|rdl|rg)_(re)?alloc(_zeroed)?|alloc::alloc::.*|\
    ::(re)?alloc(ate)?(_zeroed)?";

#[cfg(test)]
mod tests {
    use super::{Format, HeapStack, Symbols, encode, write};

    /// A return address in this function.
    #[inline(never)]
    fn here() -> usize {
        let mut addresses = Vec::new();
        backtrace::trace(|frame| {
            addresses.push(frame.ip().addr());
            true
        });
        let is_here = |address: &usize| {
            let mut symbols = Symbols::default();
            symbols.of(*address)[0].name.ends_with("tests::here")
        };
        let address = addresses.into_iter().find(is_here);
        address.expect("this function is on the stack")
    }

    fn stack(frames: Vec<usize>, live_bytes: u64) -> HeapStack {
        HeapStack {
            frames,
            allocated_objects: 8,
            allocated_bytes: 4096,
            live_objects: 2,
            live_bytes,
        }
    }

    #[test]
    fn frames_become_locations_with_names_and_lines() {
        let stacks = [stack(vec![here(), here()], 1024), stack(vec![here()], 0)];
        let profile = encode(&stacks, 512 * 1024);
        assert_eq!(profile.sample.len(), 2);
        assert_eq!(profile.sample[0].value, [8, 4096, 2, 1024]);
        assert_eq!(
            profile.sample[0].location_id,
            [1, 1],
            "the same address is one location"
        );
        let function = &profile.function[0];
        let text = |number: i64| &profile.string_table[usize::try_from(number).expect("a number")];
        assert!(
            text(function.name).contains("heap::tests::here"),
            "{}",
            text(function.name)
        );
        assert!(text(function.filename).ends_with("heap.rs"));
        let named = profile
            .sample_type
            .iter()
            .map(|kind| text(kind.ty).as_str());
        let expected = [
            "alloc_objects",
            "alloc_space",
            "inuse_objects",
            "inuse_space",
        ];
        assert!(named.eq(expected));
    }

    #[test]
    fn a_flame_graph_shows_live_allocations() {
        let svg = write(&[stack(vec![here()], 1024)], 1, Format::FlameGraph).expect("a graph");
        let svg = String::from_utf8(svg).expect("text");
        assert!(svg.contains("heap::tests::here"), "{svg}");
    }

    #[test]
    fn a_flame_graph_without_live_allocations_has_a_note() {
        let svg = write(&[stack(vec![here()], 0)], 1, Format::FlameGraph).expect("a graph");
        let svg = String::from_utf8(svg).expect("text");
        let why = "No samples: no sampled allocation is live";
        assert!(svg.contains("<svg") && svg.contains(why), "{svg}");
    }
}
