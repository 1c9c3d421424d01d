//! What it costs to look a client's address up in a list of 64 Ki networks of either family.

use std::hint::black_box;
use std::net::IpAddr;

use criterion::{Criterion, criterion_group, criterion_main};
use proxy::policy::networks::Networks;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

/// As many networks as a policy can have.
const NETWORKS: usize = 64 * 1024;
/// Addresses that are looked up in turn, so that few are in a cache.
const ADDRESSES: usize = 4 * 1024;

fn v4(rng: &mut SmallRng) -> IpAddr {
    IpAddr::from(rng.random::<[u8; 4]>())
}

fn v6(rng: &mut SmallRng) -> IpAddr {
    IpAddr::from((rng.random::<u128>() >> 3 | 1 << 125).to_be_bytes())
}

fn look_up(criterion: &mut Criterion) {
    for (name, address, lengths) in [
        ("IPv4", v4 as fn(&mut SmallRng) -> IpAddr, 20..=32),
        ("IPv6", v6, 32..=64),
    ] {
        let mut rng = SmallRng::seed_from_u64(44);
        let list: Vec<(IpAddr, u8)> = (0..NETWORKS)
            .map(|_| (address(&mut rng), rng.random_range(lengths.clone())))
            .collect();
        let networks = Networks::compile(&list);
        let addresses: Vec<IpAddr> = (0..ADDRESSES).map(|_| address(&mut rng)).collect();
        let mut next = addresses.iter().cycle();
        criterion.bench_function(&format!("networks/{name}"), |bencher| {
            bencher.iter(|| networks.contains(*black_box(next.next().expect("endless"))));
        });
    }
}

criterion_group!(benches, look_up);
criterion_main!(benches);
