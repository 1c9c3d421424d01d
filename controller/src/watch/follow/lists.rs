//! What the watches of policies, of ConfigMaps and of Secrets tell each other: the entries that policies refer to.
//!
//! A policy that needs an entry which was dropped waits until the object was read, and keeps no other policy
//! waiting. The watch of its kind reads it, so that it alone reports them, each version once and in order.

use kube::core::ApiResource;
use translate::{Object, ObjectKind};
use xds::model::ObjectName;

use super::{ChangeKind, Content, Follower, Raw, ReceiverClosed};
use crate::watch::entries::{ENTRIES, EntryKind, PolicyReferences, Rereads, references};
use crate::watch::requests::Reread;

impl Follower {
    pub(super) fn is_of_policies(&self) -> bool {
        self.kind == ObjectKind::TrafficPolicy
    }

    pub(super) fn is_of_grants(&self) -> bool {
        self.kind == ObjectKind::ReferenceGrant
    }

    /// The kind of its objects, if they have entries that policies refer to.
    pub(super) fn entry_kind(&self) -> Option<EntryKind> {
        EntryKind::of(self.kind)
    }

    /// Records what a policy refers to, and holds it if an object has to be read before. Returns its content to be
    /// sent now.
    pub(super) async fn hold(
        &mut self,
        name: &ObjectName,
        content: Content,
    ) -> Result<Option<Content>, ReceiverClosed> {
        if !self.is_of_policies() {
            return Ok(Some(content));
        }
        let held = self.progress.held.remove(name);
        let Content::Valid { object, .. } = &content else {
            // What it was before stays in effect.
            if let Some(before) = held {
                self.send(ChangeKind::Upsert(name.clone(), before)).await?;
            }
            return Ok(Some(content));
        };
        let references = references(object);
        self.ask(&ENTRIES.set(name, references.clone()));
        if !self.awaits(&references) {
            return Ok(Some(content));
        }
        self.progress.held.insert(name.clone(), content);
        Ok(None)
    }

    /// Records what a ReferenceGrant permits. Policies that it lets refer to a Secret have no credentials of it until
    /// that was read, as before.
    pub(super) fn take_grant(&self, name: &ObjectName, content: &Content) {
        if let Content::Valid { object, .. } = content
            && let Object::ReferenceGrant(grant) = object
        {
            self.ask(&ENTRIES.set_grant(name, Some(grant)));
        }
    }

    /// Asks for objects that have to be read again: with entries that are needed, or without those that are kept.
    pub(super) fn ask(&self, rereads: &Rereads) {
        // What has entries is listed once it is known which are needed.
        if !self.readiness.are_references_settled() {
            return;
        }
        for (holder, policy) in &rereads.needed {
            self.reads.requests.ask(holder, &policy.namespace);
        }
        for holder in &rereads.kept {
            self.reads.requests.ask(holder, &holder.1.namespace);
        }
    }

    /// Sends the policies that wait for nothing any more.
    pub(super) async fn release(&mut self) -> Result<(), ReceiverClosed> {
        let held = std::mem::take(&mut self.progress.held);
        for (name, content) in held {
            let is_waiting = matches!(&content, Content::Valid { object, .. } if self.awaits(&references(object)));
            if is_waiting {
                self.progress.held.insert(name, content);
            } else {
                self.send(ChangeKind::Upsert(name, content)).await?;
            }
        }
        Ok(())
    }

    fn awaits(&self, references: &PolicyReferences) -> bool {
        let mut holders = references.iter();
        holders.any(|(holder, _)| self.reads.requests.awaits(holder))
    }

    /// Reports an object that was read for a policy.
    pub(super) async fn take_reread(
        &mut self,
        reread: Reread,
        resource: &ApiResource,
    ) -> Result<(), ReceiverClosed> {
        let (request, raw) = reread.split();
        if let Some(version) = version(&raw) {
            self.progress.reread.insert(raw.name(), version);
        }
        self.report(raw, resource).await?;
        self.reads.reported(&request);
        Ok(())
    }

    /// Takes note of an event of the watch. Returns whether it is older than what was read and reported.
    pub(super) fn is_outdated(&mut self, raw: &Raw) -> bool {
        let Some(kind) = self.entry_kind() else {
            return false;
        };
        let name = raw.name();
        let read = self.progress.reread.get(&name).copied();
        if read.is_some_and(|read| version(raw).is_some_and(|version| version < read)) {
            return true;
        }
        self.progress.reread.remove(&name);
        let holder = (kind, name);
        self.reads.outdate(&holder);
        if raw.lacks_entries() || raw.has_needless_entries() {
            // It was parsed just before a policy needed them, or did not any more.
            self.reads.requests.ask(&holder, &holder.1.namespace);
        }
        false
    }
}

/// Versions of objects of one kind are numbers that increase.
fn version(raw: &Raw) -> Option<u64> {
    raw.resource_version()?.parse().ok()
}
