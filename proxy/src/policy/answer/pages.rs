//! Pages in the place of the contents of errors.

use xds::model::{self, ErrorSource, StatusRange};

use super::TypedTemplate;
use super::page_server::PageServer;
use crate::http::grammar::is_equivalent;
use crate::limits::ACCEPT_RANGES;
use crate::names::causes;

causes! {
    /// Whose error got a page.
    PageSource;
    /// The gateway generated it.
    Gateway "gateway";
    /// A backend did.
    Backend "backend";
}

/// The pages of a policy.
#[derive(Debug, PartialEq, Eq)]
pub struct ErrorPages {
    /// `kind/namespace/name` of the policy.
    policy: Box<str>,
    pages: Box<[ErrorPage]>,
}

/// A page for errors of these statuses and this source.
#[derive(Debug, PartialEq, Eq)]
struct ErrorPage {
    statuses: Box<[StatusRange]>,
    source: ErrorSource,
    content: CompiledContent,
}

#[derive(Debug, PartialEq, Eq)]
enum CompiledContent {
    Bodies(Box<[TypedBody]>),
    Server(PageServer),
}

#[derive(Debug, PartialEq, Eq)]
struct TypedBody {
    /// Type and subtype, without parameters.
    essence: Box<[u8]>,
    content: TypedTemplate,
}

/// The page of an error.
#[derive(Debug, Clone, Copy)]
pub struct ChosenPage<'p> {
    /// `kind/namespace/name` of the policy.
    pub policy: &'p str,
    /// Its content.
    pub content: PageContent<'p>,
}

/// Where the content of a page comes from.
#[derive(Debug, Clone, Copy)]
pub enum PageContent<'p> {
    /// This one.
    Body {
        /// Type and body.
        content: &'p TypedTemplate,
        /// Whether it is one of several, of which the client's `Accept` chose.
        varies: bool,
    },
    /// A server, which is asked for it.
    Server(&'p PageServer),
}

impl ErrorPages {
    /// Compiles the pages of a policy (`kind/namespace/name`).
    #[must_use]
    pub fn compile(policy: &str, pages: &[model::ErrorPage]) -> Self {
        let mut places = 0..;
        let pages = pages.iter().map(|page| ErrorPage {
            statuses: page.statuses.clone().into(),
            source: page.source,
            content: match &page.content {
                model::PageContent::Bodies(bodies) => {
                    CompiledContent::Bodies(bodies.iter().map(TypedBody::compile).collect())
                }
                model::PageContent::Server(target) => {
                    let place = places.next().unwrap_or_default();
                    CompiledContent::Server(PageServer::new(target, place))
                }
            },
        });
        Self {
            policy: policy.into(),
            pages: pages.collect(),
        }
    }

    /// The page of an error: the first one that is for it, in the type that the values of `Accept` like best. The
    /// values are read once, and no ranges beyond [`ACCEPT_RANGES`].
    #[must_use]
    pub fn choose<'p, 'v>(
        &'p self,
        status: u16,
        source: PageSource,
        accept: impl Iterator<Item = &'v [u8]>,
    ) -> Option<ChosenPage<'p>> {
        let mut pages = self.pages.iter();
        let page = pages.find(|page| page.is_for(status, source))?;
        let bodies = match &page.content {
            CompiledContent::Bodies(bodies) => bodies,
            CompiledContent::Server(server) => {
                return Some(ChosenPage {
                    policy: &self.policy,
                    content: PageContent::Server(server),
                });
            }
        };
        let (first, others) = bodies.split_first()?;
        let best = if others.is_empty() {
            first
        } else {
            preferred(first, others, &AcceptedRange::parse_all(accept))
        };
        Some(ChosenPage {
            policy: &self.policy,
            content: PageContent::Body {
                content: &best.content,
                varies: !others.is_empty(),
            },
        })
    }
}

impl ErrorPage {
    fn is_for(&self, status: u16, source: PageSource) -> bool {
        let is_from = match self.source {
            ErrorSource::Any => true,
            ErrorSource::Gateway => source == PageSource::Gateway,
            ErrorSource::Backend => source == PageSource::Backend,
        };
        let mut statuses = self.statuses.iter();
        is_from && statuses.any(|it| (it.first()..=it.last()).contains(&status))
    }
}

impl TypedBody {
    fn compile(content: &model::Content) -> Self {
        let value = content.media_type.as_bytes();
        let essence = value.split(|byte| *byte == b';').next().unwrap_or_default();
        Self {
            essence: essence.trim_ascii().to_ascii_lowercase().into(),
            content: TypedTemplate::compile(content),
        }
    }
}

/// The body whose type a client likes best; the first of equals.
fn preferred<'p>(
    first: &'p TypedBody,
    others: &'p [TypedBody],
    ranges: &[AcceptedRange<'_>],
) -> &'p TypedBody {
    let mut best = (first, preference(&first.essence, ranges));
    for body in others {
        let preference = preference(&body.essence, ranges);
        if preference > best.1 {
            best = (body, preference);
        }
    }
    best.0
}

/// A range of media types that a client accepts.
struct AcceptedRange<'v> {
    range: &'v [u8],
    /// In thousandths.
    weight: u16,
}

impl<'v> AcceptedRange<'v> {
    /// The first ranges in these values of `Accept`.
    fn parse_all(accept: impl Iterator<Item = &'v [u8]>) -> Vec<Self> {
        let elements = accept.flat_map(|value| value.split(|byte| *byte == b','));
        // Empty elements of a list are none (RFC 9110 section 5.6.1).
        let elements = elements.filter(|element| !element.trim_ascii().is_empty());
        elements
            .take(ACCEPT_RANGES)
            .filter_map(Self::parse)
            .collect()
    }

    fn parse(element: &'v [u8]) -> Option<Self> {
        let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let range = parts.next()?;
        let weight = parts.find_map(|part| {
            let value = part
                .strip_prefix(b"q=")
                .or_else(|| part.strip_prefix(b"Q="))?;
            Some(weight(value))
        });
        let weight = weight.unwrap_or(1000);
        Some(Self { range, weight })
    }
}

/// How much a client likes a type: the weight of the most specific of its ranges that includes it, in thousandths,
/// and how specific that is (RFC 9110 section 12.5.1). Nothing, and everything that cannot be parsed, is the least.
fn preference(essence: &[u8], ranges: &[AcceptedRange<'_>]) -> (u16, u8) {
    let including = ranges.iter().filter_map(|accepted| {
        let specificity = specificity(essence, accepted.range)?;
        Some((specificity, accepted.weight))
    });
    let most_specific = including.max();
    match most_specific {
        Some((specificity, weight)) if weight > 0 => (weight, specificity),
        Some(_) | None => (0, 0),
    }
}

/// How specific a range is, if it includes the type.
fn specificity(essence: &[u8], range: &[u8]) -> Option<u8> {
    if range == b"*/*" {
        return Some(1);
    }
    if let Some(kind) = range.strip_suffix(b"/*") {
        let own = essence.split(|byte| *byte == b'/').next()?;
        return own.eq_ignore_ascii_case(kind).then_some(2);
    }
    essence.eq_ignore_ascii_case(range).then_some(3)
}

/// A weight in thousandths; 0 for what is none.
fn weight(text: &[u8]) -> u16 {
    let (whole, fraction) = match text.split_first() {
        Some((whole @ (b'0' | b'1'), rest)) => (*whole, rest.strip_prefix(b".").unwrap_or(rest)),
        _ => return 0,
    };
    if fraction.len() > 3 || !fraction.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    let digits = fraction.iter().chain(b"000").take(3);
    let thousandths = digits.fold(0_u16, |sum, digit| {
        let digit = u16::from(digit.saturating_sub(b'0'));
        sum.saturating_mul(10).saturating_add(digit)
    });
    if whole == b'1' { 1000 } else { thousandths }
}

/// Whether a header field describes the content of a response: it goes where the content is replaced
/// (RFC 9110 section 8, RFC 9530).
#[must_use]
pub fn describes_content(name: &[u8]) -> bool {
    const PREFIX: &[u8] = b"content-";
    let start = name.get(..PREFIX.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
        || OF_CONTENT
            .iter()
            .any(|of_content| is_equivalent(of_content, name))
}

const OF_CONTENT: [&[u8]; 6] = [
    b"etag",
    b"last-modified",
    b"accept-ranges",
    b"digest",
    b"repr-digest",
    b"transfer-encoding",
];

#[cfg(test)]
mod tests;
