//! The rule, backend and session selected for a request.

use crate::config::{Cluster, Endpoint, Rule, RuleBackend};
use crate::names::Interned;
use crate::policy::headers::HeaderEdits;
use crate::policy::normalise::Target;
use crate::policy::path_edit::RequestPath;
use crate::policy::path_rewrite::PathRewrite;
use crate::policy::rewrite::Rewrite;
use crate::upstream::session::PersistentSession;

/// The rule that matched a request.
#[derive(Clone, Copy)]
pub(crate) struct Matched<'a> {
    pub(crate) rule: &'a Rule,
    /// Its id in the counters.
    pub(crate) rule_id: Interned,
    pub(crate) target: Target<'a>,
    /// Bytes of the path matched by its prefix.
    pub(crate) prefix_len: usize,
}

/// The backend selected for a request.
#[derive(Clone, Copy)]
pub(crate) struct Destination<'a> {
    pub(crate) backend: &'a RuleBackend,
    pub(crate) cluster: &'a Cluster,
}

impl<'a> Matched<'a> {
    /// The target, for filters to change.
    pub(crate) fn path(&self) -> RequestPath<'a> {
        self.path_in(self.target.text.as_bytes())
    }

    /// A target with the same path, for filters to change.
    pub(crate) fn path_in<'t>(&self, target: &'t [u8]) -> RequestPath<'t> {
        RequestPath::new(target, self.prefix_len)
    }
}

/// The session of a request.
#[derive(Clone, Copy)]
pub(crate) struct PinnedSession<'a> {
    /// The backend of its endpoint.
    pub(crate) destination: Destination<'a>,
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) session: PersistentSession,
}

impl<'a> Destination<'a> {
    /// Edits of requests to this backend.
    pub(crate) fn request_edits(&self) -> Option<&'a HeaderEdits> {
        self.backend
            .policy
            .as_deref()
            .map(|policy| &policy.request_headers)
    }

    /// Edits of responses from this backend.
    pub(crate) fn response_edits(&self) -> Option<&'a HeaderEdits> {
        self.backend
            .policy
            .as_deref()
            .map(|policy| &policy.response_headers)
    }

    /// Host to send to the backend, if a filter sets one.
    pub(crate) fn host(&self) -> Option<&'a str> {
        self.rewrite()?.host()
    }

    /// How a policy rewrites the path for this backend.
    pub(crate) fn path_rewrite(&self) -> Option<&'a PathRewrite> {
        self.backend.policy.as_deref()?.path_rewrite.as_ref()
    }

    pub(crate) fn rewrite(&self) -> Option<&'a Rewrite> {
        self.backend.policy.as_deref()?.rewrite.as_ref()
    }
}
