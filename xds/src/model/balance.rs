//! How requests are spread over the endpoints of a Service or `Backend`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use http::HeaderName;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use thiserror::Error;

use super::{GatewayDuration, Locality};

/// How requests are spread over endpoints. Each field is inherited separately.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Balance {
    /// Which requests go to the same endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<HashBalance>,
    /// How endpoints that have just become ready get their share; not with `hash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<SlowStart>,
    /// Which endpoints are preferred by where they are; not with `hash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locality: Option<Locality>,
}

impl Balance {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Requests with the same key go to the same endpoint, as long as it is in service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HashBalance {
    by: Vec<HashKey>,
    table: HashTableSize,
    #[serde(skip_serializing_if = "Option::is_none")]
    bounded_load: Option<BoundedLoad>,
    /// Whether it is that of a Service with session affinity, whose table nobody chose.
    #[serde(skip)]
    is_affinity: bool,
}

/// A hash that cannot be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidHash {
    /// There is no key, or there are too many.
    #[error("has {0} keys: use 1 to {most}", most = HashBalance::MOST_KEYS)]
    Keys(usize),
    /// The table has no size that every endpoint can use.
    #[error("{number} is not a prime number from {least} to {most}: use {nearest}", number = .0, least =
        HashTableSize::LEAST, most = HashTableSize::MOST, nearest = HashTableSize::nearest(*.0))]
    Table(u32),
    /// The bound is not above the average, or is none.
    #[error("{0} is out of range: use {least} to {most}", least = BoundedLoad::LEAST, most = BoundedLoad::MOST)]
    BoundedLoad(u32),
}

impl HashBalance {
    /// The most keys.
    pub const MOST_KEYS: usize = 4;

    /// A hash by the first key that a request has.
    ///
    /// # Errors
    /// There is no key, or there are too many.
    pub fn new(
        by: Vec<HashKey>,
        table: HashTableSize,
        bounded_load: Option<BoundedLoad>,
    ) -> Result<Self, InvalidHash> {
        if !(1..=Self::MOST_KEYS).contains(&by.len()) {
            return Err(InvalidHash::Keys(by.len()));
        }
        Ok(Self {
            by,
            table,
            bounded_load,
            is_affinity: false,
        })
    }

    /// That of a Service with session affinity: by the client's address.
    #[must_use]
    pub fn by_client_address() -> Self {
        Self {
            by: vec![HashKey::client_address()],
            table: HashTableSize::OF_SERVICES,
            bounded_load: None,
            is_affinity: true,
        }
    }

    /// Whether it is that of a Service with session affinity.
    #[must_use]
    pub fn is_affinity(&self) -> bool {
        self.is_affinity
    }

    /// What is hashed: the first of them that a request has.
    #[must_use]
    pub fn by(&self) -> &[HashKey] {
        &self.by
    }

    /// Slots of the table of so many endpoints. That of a Service with session affinity grows where there are so many
    /// that they would get uneven shares, or none.
    #[must_use]
    pub fn slots(&self, endpoints: usize) -> HashTableSize {
        if self.is_affinity && endpoints > HashTableSize::FEW_ENDPOINTS {
            HashTableSize::OF_LARGE_SERVICES
        } else {
            self.table
        }
    }

    /// Slots of the table, as configured.
    #[must_use]
    pub fn table(&self) -> HashTableSize {
        self.table
    }

    /// How many requests an endpoint may have at once, compared with the others.
    #[must_use]
    pub fn bounded_load(&self) -> Option<BoundedLoad> {
        self.bounded_load
    }

    /// Bytes of its table in a proxy.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        u64::from(self.table.get()) * HashTableSize::SLOT_BYTES
    }
}

/// How endpoints that have just become ready get their share of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowStart {
    window: Duration,
    minimum: u32,
    aggression: u32,
}

/// A slow start that cannot be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidSlowStart {
    /// The window is too short or too long.
    #[error("is out of range: use 1s to 15m")]
    Window,
    /// The least share is none, or more than all.
    #[error("{0} is out of range: use 1 to 100")]
    Minimum(u32),
    /// The exponent is out of range.
    #[error("is out of range: use 0.1 to 10")]
    Aggression,
}

impl SlowStart {
    /// The shortest window.
    pub const SHORTEST: Duration = Duration::from_secs(1);
    /// The longest window.
    pub const LONGEST: Duration = Duration::from_mins(15);
    /// Parts of one in the aggression.
    pub const PARTS: u32 = 100;

    /// A share that grows for `window` from `minimum` percent on, with the aggression in hundredths as the root.
    ///
    /// # Errors
    /// A value is out of range.
    pub fn new(window: Duration, minimum: u32, aggression: u32) -> Result<Self, InvalidSlowStart> {
        if !(Self::SHORTEST..=Self::LONGEST).contains(&window) {
            return Err(InvalidSlowStart::Window);
        }
        if !(1..=100).contains(&minimum) {
            return Err(InvalidSlowStart::Minimum(minimum));
        }
        if !(Self::PARTS / 10..=Self::PARTS * 10).contains(&aggression) {
            return Err(InvalidSlowStart::Aggression);
        }
        Ok(Self {
            window,
            minimum,
            aggression,
        })
    }

    /// How long an endpoint takes to get its whole share.
    #[must_use]
    pub fn window(&self) -> Duration {
        self.window
    }

    /// The least share, in percent.
    #[must_use]
    pub fn minimum(&self) -> u32 {
        self.minimum
    }

    /// The root of the share, in hundredths.
    #[must_use]
    pub fn aggression(&self) -> u32 {
        self.aggression
    }

    /// The share of an endpoint that has been ready for this time: at most 1.
    #[must_use]
    pub fn share(&self, age: Duration) -> f64 {
        let part = age.div_duration_f64(self.window);
        let aggression = f64::from(self.aggression) / f64::from(Self::PARTS);
        let least = f64::from(self.minimum) / 100.0;
        part.powf(1.0 / aggression).clamp(least, 1.0)
    }
}

impl Serialize for SlowStart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("window", &GatewayDuration(self.window).to_string())?;
        map.serialize_entry("minimum", &self.minimum)?;
        let aggression = f64::from(self.aggression) / f64::from(Self::PARTS);
        map.serialize_entry("aggression", &aggression)?;
        map.end()
    }
}

/// Something of a request that is hashed. A request that lacks it, or where it is empty, is hashed by the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashKey {
    /// The client's address, behind trusted hops: its first bits.
    ClientAddress {
        /// Bits of an IPv4 address, 0 to 32.
        ipv4_prefix: u8,
        /// Bits of an IPv6 address, 0 to 128.
        ipv6_prefix: u8,
    },
    /// A header field; several lines are joined by commas.
    Header(HeaderName),
    /// A claim of the verified token. Dots separate members of objects.
    Claim(String),
    /// A cookie.
    Cookie(String),
    /// A parameter of the query; the first one of this name.
    Query(String),
}

impl HashKey {
    /// A client's address: all of IPv4, and the network of a client in IPv6.
    #[must_use]
    pub fn client_address() -> Self {
        Self::ClientAddress {
            ipv4_prefix: 32,
            ipv6_prefix: 64,
        }
    }
}

impl Serialize for HashKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self {
            Self::ClientAddress {
                ipv4_prefix,
                ipv6_prefix,
            } => {
                let prefixes = [("ipv4Prefix", *ipv4_prefix), ("ipv6Prefix", *ipv6_prefix)];
                map.serialize_entry("clientAddress", &BTreeMap::from(prefixes))?;
            }
            Self::Header(name) => map.serialize_entry("header", name.as_str())?,
            Self::Claim(name) => map.serialize_entry("claim", name)?,
            Self::Cookie(name) => map.serialize_entry("cookie", name)?,
            Self::Query(name) => map.serialize_entry("query", name)?,
        }
        map.end()
    }
}

impl fmt::Display for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientAddress { .. } => f.write_str("client address"),
            Self::Header(name) => write!(f, "header {name}"),
            Self::Claim(name) => write!(f, "claim {name}"),
            Self::Cookie(name) => write!(f, "cookie {name}"),
            Self::Query(name) => write!(f, "query parameter {name}"),
        }
    }
}

/// Slots of a table of endpoints: a prime number, so that each endpoint's order of slots has all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct HashTableSize(u32);

impl HashTableSize {
    /// The smallest table, for ten endpoints.
    pub const LEAST: u32 = 1021;
    /// The largest table, for a thousand endpoints: 256 KiB. One of a million slots takes a quarter of a second to make,
    /// in which no other change is applied.
    pub const MOST: u32 = 131_071;
    /// That of Services with session affinity: 4 KiB, since anybody may have thousands of them.
    const OF_SERVICES: Self = Self(2039);
    /// That of Services with more than [`Self::FEW_ENDPOINTS`] endpoints.
    const OF_LARGE_SERVICES: Self = Self(65_537);
    /// Ten slots each in the small table. Most keys move when a Service grows beyond it, so few should.
    const FEW_ENDPOINTS: usize = 200;
    /// Bytes of a slot in a proxy.
    pub const SLOT_BYTES: u64 = 2;

    /// A table of this size.
    ///
    /// # Errors
    /// It is no prime number, too small or too large.
    pub fn new(slots: u32) -> Result<Self, InvalidHash> {
        let fits = (Self::LEAST..=Self::MOST).contains(&slots) && is_prime(slots);
        fits.then_some(Self(slots)).ok_or(InvalidHash::Table(slots))
    }

    /// Number of slots.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }

    /// The nearest size that is valid.
    fn nearest(slots: u32) -> u32 {
        let from = slots.clamp(Self::LEAST, Self::MOST);
        let above = (from..=Self::MOST).find(|it| is_prime(*it));
        above.unwrap_or(Self::MOST)
    }
}

impl Default for HashTableSize {
    /// That of Maglev (Eisenbud and others, 2016, section 5.3): for hundreds of endpoints.
    fn default() -> Self {
        Self(65_537)
    }
}

fn is_prime(number: u32) -> bool {
    let mut divisors = (2..).take_while(|divisor| divisor * divisor <= number);
    number > 1 && divisors.all(|divisor| !number.is_multiple_of(divisor))
}

/// How many requests an endpoint may have in flight, in percent of the average of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BoundedLoad(u32);

impl BoundedLoad {
    /// The tightest bound.
    pub const LEAST: u32 = 101;
    /// The loosest bound.
    pub const MOST: u32 = 1000;

    /// A bound of this many percent of the average.
    ///
    /// # Errors
    /// It is out of range.
    pub fn new(percent: u32) -> Result<Self, InvalidHash> {
        let fits = (Self::LEAST..=Self::MOST).contains(&percent);
        fits.then_some(Self(percent))
            .ok_or(InvalidHash::BoundedLoad(percent))
    }

    /// Percent of the average.
    #[must_use]
    pub fn percent(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        BoundedLoad, HashBalance, HashKey, HashTableSize, InvalidHash, InvalidSlowStart, SlowStart,
    };

    #[test]
    fn a_share_grows_from_the_minimum_to_all() {
        use InvalidSlowStart::{Aggression, Minimum, Window};

        let seconds = Duration::from_secs;
        let share = |aggression, age| {
            let slow = SlowStart::new(seconds(100), 10, aggression).expect("in range");
            slow.share(age)
        };
        for (aggression, age, expected) in [
            (100, 0, 0.1),
            (100, 5, 0.1),
            (100, 50, 0.5),
            (100, 100, 1.0),
            (100, 900, 1.0),
            (200, 25, 0.5),
            (50, 50, 0.25),
        ] {
            let share: f64 = share(aggression, seconds(age));
            assert!(
                (share - expected).abs() < 1e-9,
                "{aggression} {age}: {share}"
            );
        }
        for (window, minimum, aggression, error) in [
            (0, 10, 100, Window),
            (901, 10, 100, Window),
            (60, 0, 100, Minimum(0)),
            (60, 101, 100, Minimum(101)),
            (60, 10, 9, Aggression),
            (60, 10, 1001, Aggression),
        ] {
            assert_eq!(
                SlowStart::new(seconds(window), minimum, aggression),
                Err(error)
            );
        }
    }

    /// Every endpoint of a Service has slots, however many there are; a configured table stays as it is.
    #[test]
    fn the_table_of_session_affinity_grows_with_its_service() {
        let affinity = HashBalance::by_client_address();
        let slots = |endpoints| affinity.slots(endpoints).get();
        assert_eq!([slots(1), slots(200), slots(201)], [2039, 2039, 65_537]);
        let table = HashTableSize::new(2039).expect("a prime");
        let own = HashBalance::new(vec![HashKey::client_address()], table, None).expect("valid");
        assert_eq!(own.slots(5_000).get(), 2039);
    }

    #[test]
    fn a_table_has_a_prime_number_of_slots() {
        for prime in [1021, 2039, 65_537, HashTableSize::MOST] {
            assert!(HashTableSize::new(prime).is_ok(), "{prime}");
        }
        for (other, instead) in [
            (0, "use 1021"),
            (1020, "use 1021"),
            (65_536, "use 65537"),
            (65_535, "use 65537"),
            (131_072, "use 131071"),
            (u32::MAX, "use 131071"),
        ] {
            let error = HashTableSize::new(other).expect_err("no prime number in range");
            assert!(error.to_string().ends_with(instead), "{error}");
        }
    }

    #[test]
    fn a_hash_has_one_to_four_keys_and_a_bound_above_the_average() {
        let hash = |keys| HashBalance::new(keys, HashTableSize::default(), None);
        assert_eq!(hash(Vec::new()), Err(InvalidHash::Keys(0)));
        assert!(hash(vec![HashKey::client_address(); 4]).is_ok());
        let error = hash(vec![HashKey::client_address(); 5]).expect_err("too many");
        assert_eq!(error.to_string(), "has 5 keys: use 1 to 4");
        assert!(BoundedLoad::new(101).is_ok() && BoundedLoad::new(1000).is_ok());
        let error = BoundedLoad::new(100).expect_err("it is the average");
        assert_eq!(error.to_string(), "100 is out of range: use 101 to 1000");
    }
}
