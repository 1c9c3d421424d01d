//! Rewrites of host and path for backends (`URLRewrite`).

use xds::model;

use super::path_edit::{PathEdit, RequestPath};

/// A URL rewrite filter that is ready to apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewrite {
    host: Option<Box<str>>,
    path: Option<PathEdit>,
}

impl Rewrite {
    /// Composes the rewrites of a rule and of its backend. If both change host or path, only the
    /// backend's change applies: a prefix match refers to the request as matched.
    #[must_use]
    pub fn compose(rewrites: &[Option<&model::Rewrite>]) -> Option<Self> {
        let mut composed = Self::default();
        for rewrite in rewrites.iter().flatten() {
            if let Some(host) = &rewrite.hostname {
                composed.host = Some(host.as_str().into());
            }
            if let Some(path) = &rewrite.path {
                composed.path = Some(PathEdit::compile(path));
            }
        }
        (composed != Self::default()).then_some(composed)
    }

    /// The new `Host`; `None` keeps the client's.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Writes path and query for the backend.
    pub fn write_target(&self, request: RequestPath<'_>, out: &mut Vec<u8>) {
        request.write(self.path.as_ref(), out);
    }
}

#[cfg(test)]
mod tests {
    use xds::model::{self, Hostname, PathEdit};

    use super::Rewrite;
    use crate::policy::path_edit::RequestPath;
    use crate::policy::sample::written;

    fn rewrite(host: Option<&str>, path: Option<PathEdit>) -> model::Rewrite {
        model::Rewrite {
            hostname: host.map(|host| Hostname::parse(host).expect("a host name")),
            path,
        }
    }

    fn target(rewrite: &Rewrite) -> String {
        let request = RequestPath::new(b"/prefix/one?q=1", "/prefix".len());
        written(|out| rewrite.write_target(request, out))
    }

    #[test]
    fn a_rule_rewrites_host_or_path() {
        let host = rewrite(Some("one.example.org"), None);
        let host = Rewrite::compose(&[Some(&host), None]).expect("a rewrite");
        assert_eq!(host.host(), Some("one.example.org"));
        assert_eq!(target(&host), "/prefix/one?q=1");

        let path = rewrite(None, Some(PathEdit::PrefixMatch("/".to_owned())));
        let path = Rewrite::compose(&[Some(&path), None]).expect("a rewrite");
        assert_eq!(path.host(), None);
        assert_eq!(target(&path), "/one?q=1");
    }

    #[test]
    fn the_rewrite_of_a_backend_wins_for_each_field() {
        let rule = rewrite(Some("rule"), Some(PathEdit::Full("/rule".to_owned())));
        let backend = rewrite(None, Some(PathEdit::PrefixMatch("/backend".to_owned())));
        let both = Rewrite::compose(&[Some(&rule), Some(&backend)]).expect("a rewrite");
        assert_eq!(both.host(), Some("rule"));
        assert_eq!(target(&both), "/backend/one?q=1");
    }

    #[test]
    fn an_empty_rewrite_is_none() {
        assert_eq!(Rewrite::compose(&[None, Some(&rewrite(None, None))]), None);
    }
}
