//! The replacement for upstream's image of Keycloak, which our clusters cannot pull: Keycloak's
//! distribution, which `k8s/idp/keycloak` downloads and builds, and Debian's Java.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use ring::digest::{Context as Digest, SHA256};

use super::{Builder, copy};
use crate::home::{self, Home};
use crate::packages;
use crate::process;
use crate::programs::short_hex;

/// Programs that the build needs, and the Debian packages that have them.
const NEEDED: [(&str, &str); 3] = [
    ("mmdebstrap", "mmdebstrap"),
    ("java", "default-jre-headless"),
    ("mvn", "maven"),
];

/// Packages that Keycloak needs: Java, and the programs of its start script.
const PACKAGES: &str = "openjdk-17-jre-headless,bash,coreutils,dash,findutils,grep,sed";

/// The authorities that Java trusts: a package makes the file when it is configured, which none is here.
const TRUSTED: &str = "/etc/ssl/certs/java/cacerts";

/// The release of Debian that the packages are of.
const RELEASE: &str = "bookworm";

/// The manifests of Keycloak.
pub(crate) fn manifests() -> Result<String> {
    let file = home::repository().join("k8s/idp/keycloak.yaml");
    fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
}

/// Builds the image, where it is missing, under the reference that the manifests have.
pub(crate) fn build(home: &Home) -> Result<PathBuf> {
    let manifests = manifests()?;
    let reference = reference(&manifests).context("the manifests of Keycloak name no image")?;
    let dockerfile = home::sources().join("images/Dockerfile");
    let text =
        fs::read(&dockerfile).with_context(|| format!("cannot read {}", dockerfile.display()))?;
    let mut key = Digest::new(&SHA256);
    for part in [&text, reference.as_bytes(), PACKAGES.as_bytes()] {
        key.update(part);
    }
    let archive = home
        .images()
        .join(format!("keycloak-{}.tar", short_hex(key)));
    if archive.is_file() {
        return Ok(archive);
    }
    check_programs()?;
    eprintln!("building the image of Keycloak, once: about three minutes");
    let script = home::repository().join("k8s/idp/keycloak");
    let distribution = process::run(process::command(&[&script]).arg("install"))?;
    let builder = Builder::new(home, "keycloak")?;
    let context = builder.folder.join("context");
    fs::create_dir_all(&context).with_context(|| format!("cannot create {}", context.display()))?;
    let mut copied = process::command(&["cp", "-a", distribution.trim()]);
    process::run(copied.arg(context.join("keycloak")))?;
    copy(Path::new(TRUSTED), &context.join("cacerts"))?;
    install_java(&context.join("java.tar"))?;
    builder.build(&dockerfile, "keycloak", reference, &[], &context, &archive)?;
    Ok(archive)
}

/// The reference of the image in the manifests.
fn reference(manifests: &str) -> Option<&str> {
    let mut lines = manifests.lines();
    lines.find_map(|line| line.trim().strip_prefix("image: "))
}

fn check_programs() -> Result<()> {
    let missing = NEEDED
        .iter()
        .filter(|(program, _)| packages::find(program).is_none());
    let missing: Vec<_> = missing.map(|(_, package)| *package).collect();
    if !missing.is_empty() {
        let named = missing.join(" ");
        bail!("the image of Keycloak needs packages that are missing: apt-get install {named}");
    }
    Ok(())
}

/// Unpacks Debian's packages into an archive of a file system.
fn install_java(archive: &Path) -> Result<()> {
    let mut debian = process::command(&["mmdebstrap", "--quiet", "--variant=extract"]);
    // Without it, programs and libraries of one folder would be in two.
    debian.arg("--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr");
    debian.args([&format!("--include={PACKAGES}"), RELEASE]);
    process::run(debian.arg(archive)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::{manifests, reference};
    use crate::home;

    #[test]
    fn the_image_and_the_script_have_the_same_version() {
        let manifests = manifests().expect("the manifests");
        let reference = reference(&manifests).expect("an image");
        let version = reference.rsplit_once(':').expect("a tag").1;
        let script = home::repository().join("k8s/idp/keycloak");
        let script = std::fs::read_to_string(script).expect("the script");
        assert!(
            script.contains(&format!("\nVERSION={version}\n")),
            "{reference}"
        );
    }
}
