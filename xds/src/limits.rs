//! Limits of the wire form and of delta xDS, each with its unit and reason.

use std::time::Duration;

/// Listeners of a rule that a proxy accepts: far more than a Gateway may have, and as many as a compiled rule can
/// name.
pub(crate) const RULE_LISTENERS: usize = 1 << 16;

/// What the release before sent its proxies of routes, at most: rules at listeners, their bytes, and the bytes of
/// their names and versions. It admitted 131 072, 64 MiB and 8 MiB to a Gateway, and a fourth of each for what
/// closes others.
pub(crate) const FORMER_RULES: u64 = 131_072 / 4 * 5;
pub(crate) const FORMER_BYTES: u64 = 80 << 20;
pub(crate) const FORMER_REPORT_BYTES: u64 = 10 << 20;

/// Bytes of resources in one response, unless a single resource is larger. gRPC implementations
/// reject messages over 4 MiB by default, and a proxy holds a part while it waits for the others.
pub(crate) const PART_BYTES: usize = 1 << 20;

/// Parts of a batch that a client accepts: 4 GiB at [`PART_BYTES`], far beyond any configuration.
pub(crate) const PARTS: u32 = 4_096;

/// How long a session token is valid after its key was replaced, at most: 30 days, until which a client that still
/// uses it has got a new one. So the keys that are kept are few.
pub(crate) const LONGEST_TOKEN_LIFETIME: Duration = Duration::from_hours(24 * 30);

/// Removed resources that a view remembers for connections that are behind, besides as many as it
/// has resources. A connection that needs older ones is closed: reporting its versions again costs
/// less by then.
pub(crate) const TOMBSTONES: usize = 4_096;

/// How long the first response waits for the requests of all types, so that it can be one batch.
/// The requests of a proxy arrive together.
pub(crate) const FIRST_REQUESTS: Duration = Duration::from_secs(1);

/// Unknown types of a stream that get a response, and bytes of the name of one: what a later version may
/// have besides the types of this one, and the longest name that it may have. Others get none.
pub(crate) const UNKNOWN_TYPES: usize = 16;
pub(crate) const UNKNOWN_TYPE_BYTES: usize = 256;

/// Bytes of names and versions that a client reports when it begins a stream: 12 MiB, of the 16 MiB that
/// the controller accepts of a request, and keeps of a stream. A type that does not fit is not reported, and
/// is received again as a whole.
pub(crate) const REPORT_BYTES: usize = 12 << 20;

/// Bytes of an entry of the report besides its name: the version, and the tags and lengths of protobuf.
pub(crate) const REPORT_ENTRY_BYTES: usize = 24;

/// Symptoms that a proxy tells, and a controller keeps of a stream: far more than the policies of a Gateway whose
/// servers usually fail together. Those seen longest come first.
pub(crate) const SYMPTOMS: usize = 64;

/// Bytes of the text of a symptom: several of them may become part of a condition, whose message may have 2 KiB.
pub(crate) const SYMPTOM_TEXT: usize = 512;

/// Longest age of a symptom that is believed: a year.
pub(crate) const SYMPTOM_AGE: Duration = Duration::from_hours(24 * 365);

/// Bytes of a rejection's text: it becomes part of a condition, whose message may have 2 KiB.
pub(crate) const REFUSAL_TEXT: usize = 1_024;
