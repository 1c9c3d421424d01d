//! Requests binds from the supervisor, and reports the ones that failed.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::time::Instant;

use tracing::{error, info};

use super::{BindRequest, Binder, Locate};
use crate::config::Snapshot;
use crate::config::in_force::BindDown;
use crate::limits::BIND_RETRY;

/// The binds of the current configuration.
pub(super) struct Binds {
    binder: Binder,
    requested: Vec<BindRequest>,
    /// Binds that failed at the last attempt, with the logged reason.
    failed: BTreeMap<u32, String>,
    /// Whether any bind has succeeded. If none does at the start, there is no retry.
    served: bool,
    last_try: Instant,
}

impl Binds {
    pub(super) fn new(binder: Binder) -> Self {
        Self {
            binder,
            requested: Vec::new(),
            failed: BTreeMap::new(),
            served: false,
            last_try: Instant::now(),
        }
    }

    /// Requests the binds of a snapshot, which is published already.
    pub(super) fn set_desired(&mut self, snapshot: &Snapshot, locate: Locate<'_>) {
        let binds = (0..).zip(&snapshot.binds);
        let requested = binds.filter_map(|(id, bind)| {
            let bind = bind.as_ref()?;
            Some(BindRequest {
                id,
                key: bind.key.clone(),
                transport: bind.transport,
                address: bind.address,
            })
        });
        self.requested = requested.collect();
        self.request_all(locate);
    }

    /// Requests all binds, and logs changes in the ones that failed.
    pub(super) fn request_all(&mut self, locate: Locate<'_>) {
        self.last_try = Instant::now();
        let mut failed = BTreeMap::new();
        let errors = (self.binder)(self.requested.clone());
        self.served |= errors.len() < self.requested.len();
        let next = if self.served { "; retrying" } else { "" };
        for (id, error) in errors {
            let mut requested = self.requested.iter();
            let Some(request) = requested.find(|request| request.id == id) else {
                continue;
            };
            let BindRequest { key, address, .. } = request;
            let text = explain(&error);
            if self.failed.get(&id) != Some(&text) {
                error!(%address, listener = locate(key), "cannot listen on {address}: {text}{next}");
            }
            failed.insert(id, text);
        }
        for request in &self.requested {
            if self.failed.contains_key(&request.id) && !failed.contains_key(&request.id) {
                info!(address = %request.address, "listening");
            }
        }
        self.failed = failed;
    }

    /// When to retry failed binds.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        (!self.failed.is_empty()).then(|| self.last_try + BIND_RETRY)
    }

    /// Number of binds listened on.
    pub(super) fn up(&self) -> usize {
        self.requested.len() - self.failed.len()
    }

    /// The binds that failed, and why.
    pub(super) fn down(&self) -> Vec<BindDown> {
        let failed = self.requested.iter().filter_map(|request| {
            let reason = self.failed.get(&request.id)?;
            Some(BindDown {
                id: request.id,
                key: request.key.clone(),
                address: request.address,
                reason: reason.clone(),
            })
        });
        failed.collect()
    }

    /// Why no bind could be opened.
    pub(super) fn failure_summary(&self) -> String {
        match self.failed.iter().next() {
            Some((_, text)) => format!("{text} (more in the messages above)"),
            None => "the files have no Gateway with a listener that can be served; if there is \
                     one, the messages above say what is wrong with it"
                .to_owned(),
        }
    }
}

/// Explains the cause and the remedy.
fn explain(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => "ports below 1024 need a privilege: run with \
             --port-offset 8000 to add 8000 to them, or give the process CAP_NET_BIND_SERVICE"
            .to_owned(),
        ErrorKind::AddrInUse => {
            "the port is in use by another process: stop it, or change the listener's \
             port"
                .to_owned()
        }
        ErrorKind::AddrNotAvailable => "this machine does not have the address: correct the \
             Gateway's spec.addresses, or leave them out"
            .to_owned(),
        _ => error.to_string(),
    }
}
