//! Delays and drops packets between nodes.
//!
//! Many kernels lack `netem`, so packets are routed through a TUN device: it reads packets that a
//! node sent, and writes them on to another node.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tun_rs::{DeviceBuilder, SyncDevice};

use super::network::EMULATED;

/// Packets waiting for their delay to pass; more are dropped, as by a router.
const QUEUE: usize = 10_000;

/// The largest IP packet.
const LARGEST: usize = 65_536;

/// Runs until it is killed. `loss` is in percent.
pub(crate) fn run(delay: Duration, loss: u8) -> Result<()> {
    let device = DeviceBuilder::new()
        .name(EMULATED)
        .build_sync()
        .context("cannot create a TUN link: /dev/net/tun must exist")?;
    let device = Arc::new(device);
    let (sender, receiver) = mpsc::sync_channel::<(Instant, Vec<u8>)>(QUEUE);
    let writer = Arc::clone(&device);
    thread::spawn(move || {
        for (due, packet) in receiver {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            // A packet that the kernel rejects is lost, like any other.
            let _ = writer.send(&packet);
        }
    });
    read(&device, delay, loss, &sender)
}

fn read(
    device: &SyncDevice,
    delay: Duration,
    loss: u8,
    sender: &mpsc::SyncSender<(Instant, Vec<u8>)>,
) -> Result<()> {
    let random = RandomState::new();
    let mut buffer = vec![0; LARGEST];
    for number in 0_u64.. {
        let length = device.recv(&mut buffer).context("cannot read packets")?;
        if is_lost(random.hash_one(number), loss) {
            continue;
        }
        let packet = buffer.get(..length).unwrap_or_default().to_vec();
        // A full queue drops what comes.
        let _ = sender.try_send((Instant::now() + delay, packet));
    }
    Ok(())
}

/// `random` is uniformly distributed; `loss` is in percent.
fn is_lost(random: u64, loss: u8) -> bool {
    random % 100 < u64::from(loss)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configured_share_of_packets_is_lost() {
        let random = RandomState::new();
        let lost = |loss| {
            (0..10_000_u64)
                .filter(|n| is_lost(random.hash_one(n), loss))
                .count()
        };
        assert_eq!(lost(0), 0);
        assert_eq!(lost(100), 10_000);
        assert!((2_000..4_000).contains(&lost(30)), "{}", lost(30));
    }
}
