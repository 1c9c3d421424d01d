//! The certificate of the TLS scenarios, and clients that trust it and nothing else.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

/// Name in the certificate.
pub(crate) const NAME: &str = "bench.example";

/// A self-signed P-256 certificate on disk, in the forms that the peers read.
#[derive(Debug, Clone)]
pub(crate) struct Certificate {
    /// Certificate chain, as PEM.
    pub(crate) chain: PathBuf,
    /// Private key, as PEM.
    pub(crate) key: PathBuf,
    /// Both in one file, as HAProxy wants them.
    pub(crate) bundle: PathBuf,
}

impl Certificate {
    /// Made by `openssl` in `folder`, for [`NAME`].
    pub(crate) fn generate(folder: &Path) -> Result<Self> {
        Self::generate_for(NAME, folder)
    }

    /// The same for another name.
    pub(crate) fn generate_for(name: &str, folder: &Path) -> Result<Self> {
        let [chain, key, bundle] = ["cert.pem", "key.pem", "bundle.pem"].map(|n| folder.join(n));
        let status = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
            ])
            .args(["-nodes", "-days", "30", "-subj", &format!("/CN={name}")])
            .args(["-addext", &format!("subjectAltName=DNS:{name}")])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&chain)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .context("openssl is not installed: apt-get install openssl")?;
        ensure!(
            status.success(),
            "openssl failed to create a certificate ({status})"
        );
        let both = [std::fs::read(&chain)?, std::fs::read(&key)?].concat();
        std::fs::write(&bundle, both)?;
        Ok(Self { chain, key, bundle })
    }

    /// Configuration of a client of HTTP/2 that trusts this certificate alone.
    pub(crate) fn http2_client(&self) -> Result<Arc<ClientConfig>> {
        let mut config = self.config()?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }

    /// Configuration of a TLS 1.3 client that trusts this certificate alone.
    pub(crate) fn client(&self, resume: bool) -> Result<Arc<ClientConfig>> {
        let mut config = self.config()?;
        if !resume {
            config.resumption = Resumption::disabled();
        }
        Ok(Arc::new(config))
    }

    fn config(&self) -> Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.chain)?)?;
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(config)
    }
}

/// [`NAME`] as rustls takes it.
pub(crate) fn server_name() -> Result<ServerName<'static>> {
    Ok(ServerName::try_from(NAME)?)
}
