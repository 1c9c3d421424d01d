//! How requests are spread over endpoints. A field with a problem is left out, and the others stay: without it, all
//! requests are still served.

use xds::model::{
    Balance, BoundedLoad, GatewayDuration, HashBalance, HashKey, HashTableSize, InvalidSlowStart,
    Locality, LocalityMode, SlowStart, Spill,
};

use super::api::{self, BalanceSpec, HashKeySpec, HashSpec, LocalitySpec, SlowStartSpec};
use super::rate_limit::{self, KeyProblem};
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Lowers the balance of a policy, and returns the problems of what is left out.
pub(crate) fn lower(spec: &BalanceSpec) -> (Balance, Vec<Problem>) {
    if spec.hash.is_some() && spec.slow_start.is_some() {
        let message = "excludes hash, which does not draw by weight: keep one of them";
        return (
            Balance::default(),
            vec![problem(".slowStart", message.to_owned())],
        );
    }
    let mut problems = Vec::new();
    if *spec == BalanceSpec::default() {
        problems.push(problem(
            "",
            "says nothing: add hash, slowStart or locality".to_owned(),
        ));
    }
    let mut of = |field: &str, (at, why): (String, String)| {
        let at = if at.is_empty() { at } else { format!(".{at}") };
        problems.push(problem(&format!(".{field}{at}"), why));
    };
    if spec.hash.is_some() && spec.locality.is_some() {
        let why = "does not go with hash, which sends a key to the same endpoint from everywhere: keep one of them";
        of("locality", (String::new(), why.to_owned()));
    }
    let hash = spec.hash.as_ref().map(hash).transpose();
    let slow_start = spec.slow_start.as_ref().map(slow_start).transpose();
    let balance = Balance {
        hash: hash.map_err(|why| of("hash", why)).unwrap_or_default(),
        slow_start: slow_start
            .map_err(|why| of("slowStart", why))
            .unwrap_or_default(),
        locality: { spec.locality }
            .filter(|_| spec.hash.is_none())
            .map(locality),
    };
    (balance, problems)
}

fn locality(spec: LocalitySpec) -> Locality {
    Locality {
        mode: match spec.mode {
            api::LocalityMode::Off => LocalityMode::Off,
            api::LocalityMode::Hints => LocalityMode::Hints,
            api::LocalityMode::PreferZone => LocalityMode::PreferZone,
            api::LocalityMode::PreferNode => LocalityMode::PreferNode,
        },
        spill: if spec.strict {
            Spill::Never
        } else {
            Spill::Proportional
        },
    }
}

/// The slow start, or what is wrong with which of its fields.
fn slow_start(spec: &SlowStartSpec) -> Result<SlowStart, (String, String)> {
    let window = GatewayDuration::parse(&spec.window);
    let window = window.map_err(|why| ("window".into(), why.to_string()))?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "values that do not fit become the nearest one, which is out of range"
    )]
    let aggression = (spec.aggression * f64::from(SlowStart::PARTS)).round() as u32;
    let slow_start = SlowStart::new(window.0, spec.minimum, aggression);
    slow_start.map_err(|why| {
        let field = match why {
            InvalidSlowStart::Window => "window",
            InvalidSlowStart::Minimum(_) => "minimum",
            InvalidSlowStart::Aggression => "aggression",
        };
        (field.into(), why.to_string())
    })
}

fn problem(field: &str, why: String) -> Problem {
    Problem::new(Reason::Invalid, field, why + LEFT_OUT)
}

/// The hash, or what is wrong with which of its fields.
fn hash(spec: &HashSpec) -> Result<HashBalance, (String, String)> {
    let by = spec.by.iter().enumerate().map(|(index, spec)| {
        key(spec).map_err(|(field, why)| (format!("by[{index}]{field}"), why))
    });
    let by = by.collect::<Result<_, _>>()?;
    let table = HashTableSize::new(spec.table).map_err(|why| ("table".into(), why.to_string()))?;
    let bound = spec.bounded_load.map(BoundedLoad::new).transpose();
    let bound = bound.map_err(|why| ("boundedLoad".into(), why.to_string()))?;
    HashBalance::new(by, table, bound).map_err(|why| ("by".into(), why.to_string()))
}

fn key(spec: &HashKeySpec) -> Result<HashKey, KeyProblem> {
    let parts = [
        spec.client_address.map(|bits| {
            let (ipv4_prefix, ipv6_prefix) = rate_limit::address_prefixes(bits)?;
            Ok(HashKey::ClientAddress {
                ipv4_prefix,
                ipv6_prefix,
            })
        }),
        (spec.header.as_deref()).map(|name| rate_limit::header(name).map(HashKey::Header)),
        (spec.claim.as_deref()).map(|name| rate_limit::claim(name).map(HashKey::Claim)),
        (spec.cookie.as_deref()).map(|name| rate_limit::cookie(name).map(HashKey::Cookie)),
        spec.query.as_deref().map(|name| match name {
            "" => Err((".query", "is empty: name a parameter".to_owned())),
            name => Ok(HashKey::Query(name.to_owned())),
        }),
    ];
    rate_limit::only_part(
        parts,
        "set exactly one of clientAddress, header, claim, cookie and query",
    )
}

/// The consequence of a problem.
const LEFT_OUT: &str = "; until then requests are balanced without it";
