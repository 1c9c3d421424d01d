//! How requests are spread over endpoints.

use super::field_path::FieldPath;
use super::rate_limit::address_prefixes;
use super::value::{choice, duration, header_name};
use crate::model::{
    Balance, BoundedLoad, HashBalance, HashKey, HashTableSize, Locality, LocalityMode, SlowStart,
    Spill,
};
use crate::proto::{self, hash_key};

pub(super) fn balance(at: &FieldPath<'_>, message: proto::Balance) -> Option<Balance> {
    let hash = at.optional("hash", message.hash, hash);
    let slow_start = at.optional("slow_start", message.slow_start, slow_start);
    let locality = at.optional("locality", message.locality, locality);
    Some(Balance {
        hash: hash?,
        slow_start: slow_start?,
        locality: locality?,
    })
}

fn locality(at: &FieldPath<'_>, message: proto::Locality) -> Option<Locality> {
    let mode = choice(&at.field("mode"), message.mode, |mode| match mode {
        proto::LocalityMode::Unspecified => None,
        proto::LocalityMode::Off => Some(LocalityMode::Off),
        proto::LocalityMode::Hints => Some(LocalityMode::Hints),
        proto::LocalityMode::PreferZone => Some(LocalityMode::PreferZone),
        proto::LocalityMode::PreferNode => Some(LocalityMode::PreferNode),
    })?;
    let spill = if message.strict {
        Spill::Never
    } else {
        Spill::Proportional
    };
    Some(Locality { mode, spill })
}

fn hash(at: &FieldPath<'_>, message: proto::HashBalance) -> Option<HashBalance> {
    let by = at.list("by", message.by, key);
    let table = at.field("table").accept(HashTableSize::new(message.table));
    let bound = at.optional("bounded_load", message.bounded_load, |at, percent| {
        at.accept(BoundedLoad::new(percent))
    });
    at.field("by").accept(HashBalance::new(by?, table?, bound?))
}

fn slow_start(at: &FieldPath<'_>, message: proto::SlowStart) -> Option<SlowStart> {
    let window = at.required("window", message.window, duration)?;
    at.accept(SlowStart::new(window, message.minimum, message.aggression))
}

fn key(at: &FieldPath<'_>, message: proto::HashKey) -> Option<HashKey> {
    match message.part {
        Some(hash_key::Part::ClientAddress(prefixes)) => {
            let prefixes = address_prefixes(&at.field("client_address"), prefixes);
            let (ipv4_prefix, ipv6_prefix) = prefixes?;
            Some(HashKey::ClientAddress {
                ipv4_prefix,
                ipv6_prefix,
            })
        }
        Some(hash_key::Part::Header(name)) => {
            header_name(&at.field("header"), &name).map(HashKey::Header)
        }
        Some(hash_key::Part::Claim(name)) => at.text("claim", name).map(HashKey::Claim),
        Some(hash_key::Part::Cookie(name)) => at.text("cookie", name).map(HashKey::Cookie),
        Some(hash_key::Part::Query(name)) => at.text("query", name).map(HashKey::Query),
        None => at.record_missing_choice(),
    }
}
