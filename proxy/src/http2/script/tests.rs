//! Data through a connection, by written and random scripts, on both drivers.

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, proptest};

use super::play;
use crate::machine::driver::DriverChoice;

fn on_both_drivers(script: &[u8]) {
    play(DriverChoice::Epoll, script);
    if io_uring::IoUring::new(2).is_ok() {
        play(DriverChoice::IoUring, script);
    }
}

/// 48 streams with bodies of up to 12 KB, in windows of no bytes, 1, 1 000 and 64 KiB.
const LARGE: [[u8; 3]; 4] = [[47, 200, 0], [47, 200, 1], [47, 200, 10], [47, 200, 15]];

#[test]
fn data_in_one_piece_is_echoed() {
    for plan in LARGE {
        on_both_drivers(&plan);
    }
}

/// Three streams with bodies of some hundred bytes.
const SMALL: [[u8; 3]; 4] = [[2, 2, 0], [2, 2, 1], [2, 2, 10], [2, 2, 15]];

/// Steps that a script repeats: a byte that comes alone, one that is read, a read that ends without
/// any, the least of windows.
const CYCLES: [&[u8]; 5] = [&[2], &[2, 3], &[2, 7], &[2, 7, 5, 3], &[2, 6, 3]];

#[test]
fn data_read_and_written_byte_by_byte_is_echoed() {
    for plan in SMALL {
        for cycle in CYCLES {
            on_both_drivers(&[&plan, &*cycle.repeat(1_000)].concat());
        }
    }
}

proptest! {
    // Each takes some milliseconds on each driver.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn responses_do_not_depend_on_read_and_write_sizes(script in vec(any::<u8>(), 3..600)) {
        on_both_drivers(&script);
    }
}
