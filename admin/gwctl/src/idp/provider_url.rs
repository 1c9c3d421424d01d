//! Where a provider is.

use std::fmt;
use std::str::FromStr;

use http::Uri;

/// Base URL of a provider, without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProviderUrl {
    pub(super) secure: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// As it was written.
    pub(super) authority: String,
    pub(super) path: String,
}

impl FromStr for ProviderUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            "expected http://HOST:PORT or https://HOST, without user, query and fragment";
        let uri: Uri = text.parse().map_err(|_| expected)?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(expected.to_owned()),
        };
        let authority = uri.authority().ok_or(expected)?;
        if uri.query().is_some() || text.contains(['#', '@']) || authority.host().is_empty() {
            return Err(expected.to_owned());
        }
        let usual = if secure { 443 } else { 80 };
        Ok(Self {
            secure,
            host: authority.host().to_owned(),
            port: authority.port_u16().unwrap_or(usual),
            authority: authority.to_string(),
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

impl fmt::Display for ProviderUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

impl ProviderUrl {
    /// Whether bytes on their way are protected.
    pub(super) fn is_secure(&self) -> bool {
        self.secure
    }

    /// The host, without brackets.
    pub(super) fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Whether requests leave this machine.
    pub(super) fn is_exposed(&self) -> bool {
        let host = self.host();
        let ip = host.parse::<std::net::IpAddr>();
        let is_local = ip.map_or(host == "localhost", |ip| ip.is_loopback());
        !self.secure && !is_local
    }
}

#[cfg(test)]
mod tests {
    use super::ProviderUrl;

    #[test]
    fn urls_are_bases_of_paths() {
        for (text, expected) in [
            ("http://localhost:8080", Some("http://localhost:8080")),
            ("http://localhost:8080/", Some("http://localhost:8080")),
            ("https://idp.test/auth/", Some("https://idp.test/auth")),
            ("http://[::1]:8080", Some("http://[::1]:8080")),
            ("localhost:8080", None),
            ("ftp://localhost", None),
            ("http://user:password@localhost", None),
            ("http://localhost/?a", None),
            ("http:///path", None),
        ] {
            let url = text.parse::<ProviderUrl>().ok();
            let written = url.map(|url| url.to_string());
            assert_eq!(written.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn plain_text_to_another_machine_is_noticed() {
        for (text, exposed) in [
            ("http://localhost", false),
            ("http://127.0.0.1:8080", false),
            ("http://[::1]:8080", false),
            ("https://idp.test", false),
            ("http://idp.test", true),
            ("http://10.0.0.1:8080", true),
        ] {
            let url: ProviderUrl = text.parse().expect("a URL");
            assert_eq!(url.is_exposed(), exposed, "{text}");
        }
    }
}
