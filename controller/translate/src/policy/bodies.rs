//! Bodies of answers: those that are written in a policy, entries of ConfigMaps, and page servers.

use std::collections::BTreeMap;

use xds::model::{Body, ObjectName, PageContent};

use super::api::ConfigEntryRef;
use crate::backend::api::BackendObjectReference;
use crate::backend::referrer::Referrer;
use crate::objects::api::{ConfigMap, Resource as _};
use crate::objects::reader::Reader;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// The bodies that a policy has read, by reference. One that becomes unusable stays in effect.
pub(crate) type ReadBodies = BTreeMap<ConfigEntryRef, Body>;

/// Reads the bodies of a policy.
pub(crate) struct Bodies<'a> {
    reader: &'a Reader<'a>,
    namespace: &'a str,
    /// As they were read before.
    before: Option<&'a ReadBodies>,
    pub(crate) read: ReadBodies,
    /// Entries that cannot be read.
    pub(crate) refs: Vec<Problem>,
}

impl<'a> Bodies<'a> {
    /// Of a policy in `namespace`, which read the bodies `before`.
    pub(crate) fn new(
        reader: &'a Reader<'a>,
        namespace: &'a str,
        before: Option<&'a ReadBodies>,
    ) -> Self {
        Self {
            reader,
            namespace,
            before,
            read: ReadBodies::new(),
            refs: Vec::new(),
        }
    }

    /// The body of an entry: as it is now, or else as it was read before. `effect` says what holds where it never
    /// was.
    pub(crate) fn read(
        &mut self,
        reference: &ConfigEntryRef,
        field: &str,
        effect: &str,
    ) -> Option<Body> {
        let known = self.before.and_then(|before| before.get(reference));
        let body = match self.current(reference, known) {
            Ok(body) => Some(body),
            Err(why) => {
                let effect = match known {
                    Some(known) => format!(
                        "until then its previous version stays in effect, with {} bytes",
                        known.len()
                    ),
                    None => format!("until then {effect}"),
                };
                let message = format!("{why}; {effect}");
                self.refs
                    .push(Problem::new(Reason::InvalidBodyRef, field, message));
                known.cloned()
            }
        }?;
        self.read.insert(reference.clone(), body.clone());
        Some(body)
    }

    /// The page server of a reference from the policy; `None` if it does not resolve. `effect` says what holds
    /// until then.
    pub(crate) fn follow(
        &mut self,
        from: Referrer<'_>,
        reference: &BackendObjectReference,
        field: &str,
        effect: &str,
    ) -> Option<PageContent> {
        let (target, problem) = self.reader.follow(from, reference.into());
        let Some(problem) = problem else {
            return Some(PageContent::Server(target));
        };
        let message = format!("{}; until then {effect}", problem.message);
        self.refs.push(Problem { message, ..problem }.under(field));
        None
    }

    fn current(&self, reference: &ConfigEntryRef, known: Option<&Body>) -> Result<Body, String> {
        let ConfigEntryRef { name, key } = reference;
        let object = ObjectName::new(self.namespace, name);
        let what = format!("{} {object}", ConfigMap::KIND);
        let Some(map) = self.reader.object::<ConfigMap>(&object) else {
            return Err(format!("{what} does not exist: create it"));
        };
        let Some(bytes) = map.entry(key) else {
            return Err(format!("{what} has no entry `{key}`: put the body there"));
        };
        if bytes.len() > Body::MOST {
            let (number, most) = (bytes.len(), Body::MOST);
            return Err(format!(
                "entry `{key}` of {what} has {number} bytes: use {most} or less"
            ));
        }
        Ok(match known.filter(|it| it.bytes() == bytes) {
            Some(known) => known.clone(),
            None => Body::new(bytes),
        })
    }
}

/// The body that is written in a field.
pub(crate) fn written(text: &str) -> Result<Body, String> {
    let (number, most) = (text.len(), Body::MOST_WRITTEN);
    if number > most {
        return Err(format!(
            "has {number} bytes: use {most} or less, or put it into a ConfigMap and name that in bodyFrom"
        ));
    }
    Ok(Body::new(text.as_bytes()))
}
