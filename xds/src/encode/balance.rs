//! How requests are spread over endpoints.

use super::value::list;
use crate::model::{Balance, BoundedLoad, HashBalance, HashKey, Locality, LocalityMode, Spill};
use crate::proto::{self, hash_key};

impl From<&Balance> for proto::Balance {
    fn from(balance: &Balance) -> Self {
        Self {
            hash: balance.hash.as_ref().map(Into::into),
            slow_start: balance.slow_start.map(|slow| proto::SlowStart {
                window: Some(slow.window().into()),
                minimum: slow.minimum(),
                aggression: slow.aggression(),
            }),
            locality: balance.locality.map(Into::into),
        }
    }
}

impl From<Locality> for proto::Locality {
    fn from(locality: Locality) -> Self {
        let mode = match locality.mode {
            LocalityMode::Off => proto::LocalityMode::Off,
            LocalityMode::Hints => proto::LocalityMode::Hints,
            LocalityMode::PreferZone => proto::LocalityMode::PreferZone,
            LocalityMode::PreferNode => proto::LocalityMode::PreferNode,
        };
        Self {
            mode: mode.into(),
            strict: locality.spill == Spill::Never,
        }
    }
}

impl From<&HashBalance> for proto::HashBalance {
    fn from(hash: &HashBalance) -> Self {
        Self {
            by: list(hash.by()),
            table: hash.table().get(),
            bounded_load: hash.bounded_load().map(BoundedLoad::percent),
        }
    }
}

impl From<&HashKey> for proto::HashKey {
    fn from(key: &HashKey) -> Self {
        let part = match key {
            HashKey::ClientAddress {
                ipv4_prefix,
                ipv6_prefix,
            } => hash_key::Part::ClientAddress(proto::ClientAddressKey {
                ipv4_prefix: (*ipv4_prefix).into(),
                ipv6_prefix: (*ipv6_prefix).into(),
            }),
            HashKey::Header(name) => hash_key::Part::Header(name.to_string()),
            HashKey::Claim(name) => hash_key::Part::Claim(name.clone()),
            HashKey::Cookie(name) => hash_key::Part::Cookie(name.clone()),
            HashKey::Query(name) => hash_key::Part::Query(name.clone()),
        };
        Self { part: Some(part) }
    }
}
