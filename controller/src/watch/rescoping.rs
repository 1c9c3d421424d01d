//! The order in which kinds follow a change of the selected namespaces.
//!
//! Each kind is listed by itself. If that of a route came first, the route would be published without
//! the policy that requires a token. So newly selected namespaces are listed for the policies first, and
//! the policies of deselected ones are the last objects to go.

use std::collections::BTreeMap;

use tokio::sync::watch;

use super::kinds::{KindId, Kinds};
use super::scope::{Scope, Scopes};

/// How far each kind has followed.
#[derive(Debug, Default)]
pub(super) struct Progress(BTreeMap<KindId, KindProgress>);

#[derive(Debug, Default)]
struct KindProgress {
    /// The namespaces whose objects may have been reported. `None`: no objects were.
    held: Option<Scope>,
    /// The namespaces of the last complete list.
    listed: Option<Scope>,
    /// The API server does not serve the kind.
    is_absent: bool,
}

/// Where followers report their progress.
#[derive(Debug, Clone, Default)]
pub(super) struct Reports(watch::Sender<Progress>);

impl Reports {
    /// The kind has no objects.
    pub(super) fn absent(&self, kind: KindId) {
        self.update(kind, |progress| {
            *progress = KindProgress {
                is_absent: true,
                ..KindProgress::default()
            };
        });
    }

    /// Objects of this scope are reported from now on; those of others have been reported as deleted.
    pub(super) fn holds(&self, kind: KindId, scope: &Scope) {
        self.update(kind, |progress| {
            let listed = progress.listed.as_ref();
            progress.listed = listed.map(|listed| listed.within(scope));
            progress.held = Some(scope.clone());
            progress.is_absent = false;
        });
    }

    /// All objects of this scope were reported, unless they have left since.
    pub(super) fn listed(&self, kind: KindId, scope: &Scope) {
        self.update(kind, |progress| {
            let held = progress.held.as_ref();
            progress.listed = held.map(|held| held.within(scope));
        });
    }

    fn update(&self, kind: KindId, change: impl FnOnce(&mut KindProgress)) {
        self.0
            .send_modify(|progress| change(progress.0.entry(kind).or_default()));
    }
}

/// Tells followers which namespaces to read, in this order.
#[derive(Debug)]
pub(super) struct Rescoping {
    selected: Scopes,
    progress: watch::Receiver<Progress>,
    policies: watch::Sender<Option<Scope>>,
    others: watch::Sender<Option<Scope>>,
    kinds: Kinds,
}

impl Rescoping {
    /// Follows the selection.
    pub(super) fn new(selected: Scopes, reports: &Reports, kinds: &Kinds) -> Self {
        let scope = selected.borrow().clone();
        Self {
            policies: watch::Sender::new(scope.clone()),
            others: watch::Sender::new(scope),
            progress: reports.0.subscribe(),
            kinds: kinds.clone(),
            selected,
        }
    }

    /// The scopes for the watch of a kind.
    pub(super) fn scopes(&self, kind: KindId) -> Scopes {
        if self.kinds.is_policy(kind) {
            self.policies.subscribe()
        } else {
            self.others.subscribe()
        }
    }

    /// Ends with the selection.
    pub(super) async fn run(mut self) {
        let mut selected = self.selected.clone();
        loop {
            let scope = selected.borrow_and_update().clone();
            tokio::select! {
                changed = selected.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                // Never returns: a later change starts anew from what the kinds have reached.
                () = self.follow(scope) => {}
            }
        }
    }

    async fn follow(&mut self, selected: Option<Scope>) {
        if let Some(selected) = selected {
            self.select(&selected).await;
        }
        std::future::pending().await
    }

    async fn select(&mut self, selected: &Scope) {
        let (policies, others) = (self.policies.borrow().clone(), self.others.borrow().clone());
        if let (Some(policies), Some(before)) = (policies, others) {
            // Where a namespace was deselected just now, its policies are listed anew only after they left.
            self.until(|kinds, progress| {
                kinds.policies().all(|it| progress.is_within(it, &policies))
            })
            .await;
            self.policies
                .send_replace(Some(self.held(before).with(selected)));
            self.until(|kinds, progress| {
                kinds.policies().all(|it| progress.is_listed(it, selected))
            })
            .await;
            self.others.send_replace(Some(selected.clone()));
            self.until(|kinds, progress| kinds.others().all(|it| progress.is_within(it, selected)))
                .await;
        }
        // Without one before, nothing is published yet, until all kinds are listed.
        self.policies.send_replace(Some(selected.clone()));
        self.others.send_replace(Some(selected.clone()));
    }

    /// The namespaces of which kinds other than policies may have objects.
    fn held(&self, published: Scope) -> Scope {
        let progress = self.progress.borrow();
        let held = self
            .kinds
            .others()
            .filter_map(|kind| progress.0.get(&kind)?.held.as_ref());
        held.fold(published, |all, held| all.with(held))
    }

    async fn until(&mut self, is_reached: impl Fn(&Kinds, &Progress) -> bool) {
        let kinds = &self.kinds;
        let reached = self.progress.wait_for(|it| is_reached(kinds, it));
        // Fails once the followers have ended, and then nothing is left to do.
        if reached.await.map(drop).is_err() {
            std::future::pending().await
        }
    }
}

impl Progress {
    fn is_listed(&self, kind: KindId, scope: &Scope) -> bool {
        self.0.get(&kind).is_some_and(|progress| {
            let listed = progress.listed.as_ref();
            progress.is_absent || listed.is_some_and(|it| it.covers(scope))
        })
    }

    fn is_within(&self, kind: KindId, scope: &Scope) -> bool {
        let held = self.0.get(&kind).and_then(|it| it.held.as_ref());
        held.is_none_or(|held| scope.covers(held))
    }
}

#[cfg(test)]
mod tests;
