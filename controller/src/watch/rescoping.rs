//! The order in which kinds follow a change of the selected namespaces.
//!
//! Each kind is listed by itself. If routes came first, they would be published without the policies that
//! require a token. So newly selected namespaces are listed for the policies first, and the policies of
//! deselected ones are the last objects to go.

use std::collections::BTreeMap;
use std::time::Duration;
use translate::ObjectKind;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use super::kinds::{Kinds, is_protecting};
use super::scope::{Scope, Scopes};

/// The scopes that each kind has reached.
#[derive(Debug, Default)]
pub(super) struct ScopeStates(BTreeMap<ObjectKind, ScopeState>);

#[derive(Debug, Default)]
struct ScopeState {
    /// The namespaces whose objects may have been reported. `None`: no objects were.
    held: Option<Scope>,
    /// The namespaces of the last complete list.
    listed: Option<Scope>,
    /// The API server does not serve the kind.
    is_absent: bool,
}

/// Where followers report their progress.
#[derive(Debug, Clone, Default)]
pub(super) struct Reports(watch::Sender<ScopeStates>);

impl Reports {
    /// The kind has no objects.
    pub(super) fn absent(&self, kind: ObjectKind) {
        self.update(kind, |state| {
            *state = ScopeState {
                is_absent: true,
                ..ScopeState::default()
            };
        });
    }

    /// Objects of this scope are reported from now on; those of others have been reported as deleted.
    pub(super) fn holds(&self, kind: ObjectKind, scope: &Scope) {
        self.update(kind, |state| {
            let listed = state.listed.as_ref();
            state.listed = listed.map(|listed| listed.intersection(scope));
            state.held = Some(scope.clone());
            state.is_absent = false;
        });
    }

    /// All objects of this scope were reported, unless they have left since.
    pub(super) fn listed(&self, kind: ObjectKind, scope: &Scope) {
        self.update(kind, |state| {
            let held = state.held.as_ref();
            state.listed = held.map(|held| held.intersection(scope));
        });
    }

    /// The namespaces of the last complete list.
    #[cfg(test)]
    pub(super) fn scope_listed(&self, kind: ObjectKind) -> Option<Scope> {
        self.0.borrow().0.get(&kind)?.listed.clone()
    }

    fn update(&self, kind: ObjectKind, change: impl FnOnce(&mut ScopeState)) {
        self.0
            .send_modify(|states| change(states.0.entry(kind).or_default()));
    }
}

/// Tells followers which namespaces to read, in this order.
#[derive(Debug)]
pub(super) struct Rescoping {
    selected: Scopes,
    states: watch::Receiver<ScopeStates>,
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
            states: reports.0.subscribe(),
            kinds: kinds.clone(),
            selected,
        }
    }

    /// The scopes for the watch of a kind.
    pub(super) fn scopes(&self, kind: ObjectKind) -> Scopes {
        if is_protecting(kind) {
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
        std::future::pending::<()>().await;
    }

    async fn select(&mut self, selected: &Scope) {
        let (policies, others) = (self.policies.borrow().clone(), self.others.borrow().clone());
        if let (Some(policies), Some(before)) = (policies, others) {
            // Policies of a namespace that was deselected just now are listed anew only after they left.
            self.until(|kinds, states| kinds.policies().all(|it| states.is_within(it, &policies)))
                .await;
            let needed = self.held(before.clone()).union(selected);
            self.policies.send_replace(Some(needed));
            self.release(&before.intersection(selected), selected).await;
            self.until(|kinds, states| kinds.others().all(|it| states.is_within(it, selected)))
                .await;
        }
        // Without scopes before, nothing is published yet, until all kinds are listed.
        self.policies.send_replace(Some(selected.clone()));
        self.others.send_replace(Some(selected.clone()));
    }

    /// Lets the other kinds read each selected namespace once its policies are listed. Returns when all are.
    /// The namespaces in `before` are read already.
    async fn release(&mut self, before: &Scope, selected: &Scope) {
        let warn_at = Instant::now() + PATIENCE;
        let mut has_warned = false;
        loop {
            let listed = self.states.borrow_and_update().listed(&self.kinds);
            let ready = before.union(&selected.intersection(&listed));
            let is_complete = ready.covers(selected);
            self.others.send_if_modified(|others| {
                let ready = Some(ready);
                let is_changed = *others != ready;
                *others = ready;
                is_changed
            });
            if is_complete {
                return;
            }
            tokio::select! {
                changed = self.states.changed() => if changed.is_err() {
                    std::future::pending::<()>().await;
                },
                () = sleep_until(warn_at), if !has_warned => {
                    has_warned = true;
                    let policies: Vec<_> =
                        self.kinds.policies().map(ObjectKind::name).collect();
                    warn!(
                        "newly selected namespaces are not read yet: waiting until their policies are listed ({}); see the errors of these watches",
                        policies.join(", ")
                    );
                }
            }
        }
    }

    /// The namespaces of which kinds other than policies may have objects.
    fn held(&self, published: Scope) -> Scope {
        let states = self.states.borrow();
        let held = self
            .kinds
            .others()
            .filter_map(|kind| states.0.get(&kind)?.held.as_ref());
        held.fold(published, |all, held| all.union(held))
    }

    async fn until(&mut self, is_reached: impl Fn(&Kinds, &ScopeStates) -> bool) {
        let kinds = &self.kinds;
        let reached = self.states.wait_for(|it| is_reached(kinds, it));
        // Fails once the followers have ended, and then nothing is left to do.
        if reached.await.map(drop).is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl ScopeStates {
    /// The namespaces for which all policies are listed.
    fn listed(&self, kinds: &Kinds) -> Scope {
        kinds
            .policies()
            .fold(Scope::Everything, |all, kind| match self.0.get(&kind) {
                Some(state) if state.is_absent => all,
                Some(ScopeState {
                    listed: Some(listed),
                    ..
                }) => all.intersection(listed),
                _ => all.intersection(&Scope::none()),
            })
    }

    fn is_within(&self, kind: ObjectKind, scope: &Scope) -> bool {
        let held = self.0.get(&kind).and_then(|it| it.held.as_ref());
        held.is_none_or(|held| scope.covers(held))
    }
}

/// How long newly selected namespaces wait for their policies before the log says so.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
