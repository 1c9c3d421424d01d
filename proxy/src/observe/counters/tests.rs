use std::time::Duration;

use super::{
    BOUNDS_MICROS, BUCKETS, Block, Blocks, Counter, Gauge, Histogram, HistogramSum, RouteCounters,
    TokenResults,
};
use crate::names::Interned;
use crate::policy::jwt::{AuthenticatedBy, Refusal};

fn id(index: u32, generation: u32) -> Interned {
    Interned { index, generation }
}

#[test]
fn durations_are_counted_in_the_smallest_bucket_that_covers_them() {
    let histogram = Histogram::default();
    for (nth, bound) in BOUNDS_MICROS.into_iter().enumerate() {
        let at = |bucket: usize| {
            let mut sum = HistogramSum::default();
            sum.merge(&histogram);
            sum.buckets[bucket]
        };
        let before = (at(nth), at(nth + 1));
        histogram.observe(Duration::from_micros(bound));
        histogram.observe(Duration::from_micros(bound + 1));
        assert_eq!(
            (at(nth), at(nth + 1)),
            (before.0 + 1, before.1 + 1),
            "{bound}"
        );
    }
    histogram.observe(Duration::MAX);
}

#[test]
fn histograms_of_shards_add_up() {
    let shards: Vec<_> = (1..=3)
        .map(|millis| {
            let histogram = Histogram::default();
            histogram.observe(Duration::from_millis(millis));
            histogram
        })
        .collect();
    let mut sum = HistogramSum::default();
    for shard in &shards {
        sum.merge(shard);
    }
    assert_eq!(sum.count(), 3);
    assert_eq!(sum.sum_micros, 6_000);
    assert_eq!(sum.buckets.len(), BUCKETS);
}

#[test]
fn a_gauge_does_not_go_below_zero() {
    let gauge = Gauge::default();
    gauge.up();
    gauge.down();
    gauge.down();
    assert_eq!(gauge.value(), 0);
}

#[test]
fn a_block_is_found_only_by_its_owner() {
    let blocks = Blocks::<RouteCounters>::default();
    assert!(blocks.read(id(5, 0)).is_none());
    blocks.of(id(5, 0)).bytes_in.add(7);
    assert_eq!(
        blocks.read(id(5, 0)).map(|block| block.bytes_in.value()),
        Some(7)
    );
    assert!(blocks.read(id(5, 1)).is_none());
    assert!(blocks.read(id(6, 0)).is_none());
}

#[test]
fn a_new_owner_starts_from_zero() {
    let blocks = Blocks::<RouteCounters>::default();
    let old = blocks.of(id(200, 3));
    old.retries.add(2);
    old.active.up();
    old.duration.observe(Duration::from_secs(1));
    let new = blocks.of(id(200, 4));
    let mut sum = HistogramSum::default();
    sum.merge(&new.duration);
    assert_eq!(
        (new.retries.value(), new.active.value(), sum.count()),
        (0, 0, 0)
    );
    assert!(blocks.read(id(200, 3)).is_none());
}

#[test]
fn a_block_can_be_read_while_it_is_written() {
    const N: u64 = 100_000;
    let blocks = Blocks::<RouteCounters>::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..N {
                blocks.of(id(0, 0)).bytes_out.add(1);
            }
        });
        let mut last = 0;
        while last < N {
            let value = blocks
                .read(id(0, 0))
                .map_or(0, |block| block.bytes_out.value());
            assert!(value >= last, "it never goes back");
            last = value;
            std::hint::spin_loop();
        }
    });
}

#[test]
fn reset_clears_every_field() {
    let block = RouteCounters::default();
    block.bytes_in.add(1);
    block.bytes_out.add(1);
    block.connect.observe(Duration::ZERO);
    block.reset();
    assert_eq!(
        format!("{block:?}"),
        format!("{:?}", RouteCounters::default())
    );
}

#[test]
fn tokens_are_counted_by_result() {
    let results = TokenResults::default();
    for result in [
        Ok(AuthenticatedBy::Cached),
        Ok(AuthenticatedBy::Cached),
        Ok(AuthenticatedBy::Verified),
        Ok(AuthenticatedBy::None),
        Err(Refusal::Expired),
        Err(Refusal::NoKeys),
        Err(Refusal::NoKeys),
    ] {
        results.count(result);
    }
    let accepted = [&results.cached, &results.verified, &results.absent];
    assert_eq!(accepted.map(Counter::value), [2, 1, 1]);
    let refused: Vec<_> = results
        .refused
        .iter()
        .filter(|(_, count)| *count > 0)
        .collect();
    assert_eq!(refused, [(Refusal::Expired, 1), (Refusal::NoKeys, 2)]);
}
